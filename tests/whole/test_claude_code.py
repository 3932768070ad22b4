"""Claude Code itself, from npm, in print mode before a gateway and a simulator.

It is a test tool: ``npm install --prefix .claude-code @anthropic-ai/claude-code`` at the root of
the repository brings it here; without it, these tests skip.
"""

import json
import os
import shutil
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from proxy.records.receipt import Outcome, Receipt
from tests.fakes.gateway_fixture import GPT_NEXT, GatewayFixture, running_gateway

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / ".claude-code" / "node_modules" / ".bin" / "claude"
CLAUDE = str(LOCAL) if LOCAL.exists() else shutil.which("claude")
WORDS = ("Say hello now please.", "Which files are in here and why?", "Tidy up this project, do.")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CLAUDE is None, reason="Claude Code is not installed: see the module"),
]


@pytest.fixture
def all_treated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with running_gateway(tmp_path, more_catalog=GPT_NEXT, control_share=0.0) as running:
        yield running


def run_session(gateway: GatewayFixture, folder: Path, words: str, model: str) -> dict[str, Any]:
    """Run one session in a new folder; return what it prints."""
    project, home = folder / "project", folder / "home"
    for path in (project, home):
        path.mkdir(parents=True)
    done = subprocess.run(  # noqa: S603 - a program that the test installs
        [str(CLAUDE), "-p", words, "--model", model, "--output-format", "json"],
        cwd=project,
        env={
            **os.environ,  # noqa: TID251 - Node and its own settings are found there
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": gateway.url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": gateway.key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def session_receipts(gateway: GatewayFixture, folder: Path, model: str) -> list[Receipt]:
    """The receipts of sessions in folders of their own, one after the other."""
    for number, words in enumerate(WORDS):
        output = run_session(gateway, folder / str(number), words, model)
        assert (output["is_error"], output["subtype"]) == (False, "success")
        gateway.of_feature("claude-code", number + 1)
    return gateway.of_feature("claude-code", len(WORDS))


def test_a_second_session_in_another_folder_reads_the_tools_and_stable_text_of_the_first(
    all_treated: GatewayFixture, tmp_path: Path
) -> None:
    first, *later = session_receipts(all_treated, tmp_path / "sessions", "claude-lab")

    assert all(receipt.outcome is Outcome.ANSWERED for receipt in (first, *later))
    assert first.usage is not None
    assert first.usage.cache_read == 0
    for receipt in later:
        assert receipt.usage is not None
        assert receipt.usage.cache_read > 0.9 * (first.usage.write_5m - 1_400)
        assert (receipt.cost_nanos or 0) < 0.5 * (first.cost_nanos or 0)


def test_claude_code_runs_on_an_openai_model_without_its_attribution_line(
    all_treated: GatewayFixture, tmp_path: Path
) -> None:
    _, *later = session_receipts(all_treated, tmp_path / "sessions", "gpt-lab")

    assert b"x-anthropic-billing-header" not in all_treated.lab.exchanges[-1].body
    assert all(receipt.usage is not None and receipt.usage.cache_read > 10_000 for receipt in later)


#: Results of tools as they arrive upstream, by the model.
RESULTS = {
    "claude-lab": '"tool_result"',
    "gpt-lab": '"tool"',
    "gpt-next": '"function_call_output"',
}


@pytest.mark.parametrize("model", RESULTS)
def test_claude_code_calls_tools_over_several_turns_and_reads_what_it_sent_before(
    all_treated: GatewayFixture, tmp_path: Path, model: str
) -> None:
    script = ("call=Read", "call=Read,call=Bash", "ok")
    all_treated.lab.queue_directives(script)
    output = run_session(all_treated, tmp_path / "sessions", "Read the notes.", model)
    receipts = all_treated.of_feature("claude-code", len(script))
    body = json.loads(all_treated.lab.exchanges[-1].body)
    messages = json.dumps(body.get("messages", body.get("input")))

    assert (output["is_error"], output["num_turns"]) == (False, 4)
    assert [receipt.outcome for receipt in receipts] == [Outcome.ANSWERED] * len(script)
    for receipt in receipts[1:]:
        assert receipt.usage is not None
        assert receipt.usage.cache_read > 0.85 * receipt.usage.prompt_tokens
    assert messages.count(RESULTS[model]) == 3


def test_a_subagent_in_another_folder_reads_the_tools_and_stable_text_of_the_first_one(
    all_treated: GatewayFixture, tmp_path: Path
) -> None:
    """Two sessions, each with a subagent of its own, whose tools and system text are others."""
    task_arguments = {
        "description": "Look",
        "prompt": "Look around.",
        "subagent_type": "general-purpose",
    }
    arguments = urlsafe_b64encode(json.dumps(task_arguments).encode()).decode().rstrip("=")
    usages = []
    for number in range(2):
        before = len(all_treated.lab.exchanges)
        all_treated.lab.queue_directives((f"call=Agent,args={arguments}", "ok", "ok"))
        output = run_session(
            all_treated, tmp_path / str(number), "Have it looked at.", "claude-lab"
        )
        assert output["subtype"] == "success"
        asked_for = [
            exchange
            for exchange in list(all_treated.lab.exchanges)[before:]
            if exchange.usage is not None
        ]
        calls = [(json.loads(exchange.body), exchange.usage) for exchange in asked_for]
        (subagent_call,) = [call for call in calls if "cc_is_subagent" in json.dumps(call[0])]
        usages.append(subagent_call[1])
    reads = [usage.cache_read for usage in usages if usage is not None]
    writes = [usage.write_5m for usage in usages if usage is not None]

    assert reads[0] == 0
    assert reads[1] > 0.9 * writes[0]
