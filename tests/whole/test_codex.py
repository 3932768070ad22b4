"""Codex itself, from npm, in its exec mode before a gateway and a simulator.

It is a test tool: ``npm install --prefix .codex-cli @openai/codex`` at the root of the repository
brings it here; without it, these tests skip. It takes no home in a temporary folder, so homes are
made beside it.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture, running_gateway

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / ".codex-cli"
LOCAL = HERE / "node_modules" / ".bin" / "codex"
CODEX = str(LOCAL) if LOCAL.exists() else shutil.which("codex")
#: Codex knows models of these names, and offers them its newer form of tools.
MORE = """
[upstreams.claude]
kind = "anthropic"
base_url = "{url}"
key_env = "SIMULATOR_KEY"
drops_server_tools = true

[[models]]
id = "gpt-5.6-terra"
upstream = "lab"
model = "gpt-lab"
regime = "openai-breakpoint"
price = { input = "1.00", cache_read = "0.10", write_30m = "1.25", output = "4.00" }

[[models]]
id = "gpt-6.1-sol"
upstream = "claude"
model = "claude-lab"
regime = "anthropic-breakpoint"
max_output = 4096
min_cache_tokens = 512
traits = ["adaptive_thinking", "mid_system", "structured", "forced_tools", "sampling"]
price = { input = "1.00", cache_read = "0.10", write_5m = "1.25", output = "4.00" }

[[models]]
id = "house-claude"
like = "gpt-6.1-sol"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CODEX is None, reason="Codex is not installed: see the module"),
]


@pytest.fixture
def all_treated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayFixture]:
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with running_gateway(tmp_path, control_share=0.0, more_catalog=MORE) as running:
        yield running


@pytest.fixture
def homes() -> Iterator[Path]:
    """A folder for the homes of sessions, and their projects."""
    HERE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=HERE, prefix="homes-"))
    yield folder
    shutil.rmtree(folder)


def run_session(folder: Path, words: str, model: str, base_url: str, key: str) -> dict[str, Any]:
    """Run one session in a new folder; return what it says it used."""
    project, home = folder / "project", folder / "home" / ".codex"
    for path in (project, home):
        path.mkdir(parents=True)
    (home / "config.toml").write_text(
        f'model = "{model}"\nmodel_provider = "thriftgate"\n[model_providers.thriftgate]\n'
        f'name = "Thriftgate"\nbase_url = "{base_url}"\nenv_key = "GATEWAY_KEY"\n'
        'wire_api = "responses"\n'
    )
    done = subprocess.run(  # noqa: S603 - a program that the test installs
        [str(CODEX), "exec", "--skip-git-repo-check", "--json", words],
        cwd=project,
        env={
            **os.environ,  # noqa: TID251 - Node and its own settings are found there
            "HOME": str(folder / "home"),
            "CODEX_HOME": str(home),
            "GATEWAY_KEY": key,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["type"] == "turn.completed", done.stdout
    used: dict[str, Any] = events[-1]["usage"]
    return used


def heard_results(gateway: GatewayFixture) -> list[str]:
    """Results of tool calls in the latest request that the upstream got."""
    document = json.loads(gateway.lab.exchanges[-1].body)
    items = document.get("input") or [
        block
        for message in document["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    kinds = {"function_call_output", "tool_result"}
    return [json.dumps(item) for item in items if item["type"] in kinds]


def test_codex_calls_tools_over_several_turns_and_reads_what_it_sent_before(
    all_treated: GatewayFixture, homes: Path
) -> None:
    script = ("call=exec_command", "call=get_goal", "call=write_stdin", "ok")
    all_treated.lab.queue_directives(script)
    run_session(homes, "Read the notes.", "gpt-lab", all_treated.url, all_treated.key)
    receipts = all_treated.of_feature("codex", len(script))

    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * len(script)
    assert len(heard_results(all_treated)) == 3
    for receipt in receipts[1:]:
        assert receipt.usage is not None
        assert receipt.usage.cache_read > 0.7 * receipt.usage.prompt_tokens


def test_a_newer_model_whose_tools_stand_in_the_input_is_planned(
    all_treated: GatewayFixture, homes: Path
) -> None:
    run_session(homes, "Say hello.", "gpt-5.6-terra", all_treated.url, all_treated.key)
    (receipt,) = all_treated.of_feature("codex")

    assert b'"additional_tools"' in all_treated.lab.exchanges[-1].body
    assert receipt.arm == "treated"
    assert receipt.notes == ()


def test_codex_runs_on_claude_with_its_tools_of_free_text(
    all_treated: GatewayFixture, homes: Path
) -> None:
    script = ("call=functions__exec", "call=functions__exec", "ok")
    all_treated.lab.queue_directives(script)
    run_session(homes, "Tidy up.", "gpt-6.1-sol", all_treated.url, all_treated.key)
    receipts = all_treated.of_feature("codex", len(script))
    results = heard_results(all_treated)

    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * len(script)
    assert len(results) == 2
    assert not any("unsupported call" in result for result in results)


def test_codex_runs_on_claude_with_tools_in_namespaces_and_none_that_openai_runs(
    all_treated: GatewayFixture, homes: Path
) -> None:
    script = ("call=exec_command,call=multi_agent_v1__close_agent", "ok")
    all_treated.lab.queue_directives(script)
    run_session(homes, "Tidy up.", "house-claude", all_treated.url, all_treated.key)
    receipts = all_treated.of_feature("codex", len(script))
    results = heard_results(all_treated)

    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * len(script)
    assert "left out web_search, which only OpenAI runs" in receipts[0].notes
    assert len(results) == 2
    assert not any("unsupported call" in result for result in results)
