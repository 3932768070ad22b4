"""``thriftgate agents``: how a coding agent is pointed at the gateway."""

import json

import pytest
from typer.testing import CliRunner, Result

from proxy.cli.main import _commands
from proxy.records.agents import AGENTS


def run(*words: str) -> Result:
    return CliRunner().invoke(_commands, ["agents", *words])


def test_each_agent_is_printed_with_two_lines() -> None:
    told = run("--url", "https://gw.test/v1", "--key", "tg-1").output.strip().split("\n\n")

    assert [len(part.splitlines()) for part in told] == [3] * len(AGENTS)
    assert told[0].splitlines() == [
        "Claude Code (claude-code)",
        "export ANTHROPIC_BASE_URL=https://gw.test",
        "export ANTHROPIC_API_KEY=tg-1",
    ]


def test_one_agent_is_printed_alone_also_as_json() -> None:
    found = json.loads(run("aider", "--json", "--model", "gpt-5.5").output)

    assert [each["name"] for each in found] == ["aider"]
    assert found[0]["lines"][1] == "aider --model openai/gpt-5.5"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:9000"),  # noqa: S104 - it is asked, not bound
        ("::", "http://[::1]:9000"),
        ("gateway.test", "http://gateway.test:9000"),
    ],
)
def test_the_address_is_the_settings_own(
    monkeypatch: pytest.MonkeyPatch, host: str, url: str
) -> None:
    monkeypatch.setenv("THRIFTGATE_HOST", host)
    monkeypatch.setenv("THRIFTGATE_PORT", "9000")

    assert f"ANTHROPIC_BASE_URL={url}\n" in run("claude-code").output


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    found = run("emacs")

    assert found.exit_code != 0
    assert "claude-code" in found.output + found.stderr
