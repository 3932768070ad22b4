"""``thriftgate agents``: how a coding agent is pointed at the gateway."""

import json

import pytest
from typer.testing import CliRunner, Result

from proxy.cli.main import _commands
from proxy.records.agents import AGENTS


def run(*words: str) -> Result:
    return CliRunner().invoke(_commands, ["agents", *words])


def test_each_agent_is_printed_with_two_lines() -> None:
    blocks = run("--url", "https://gw.test/v1", "--key", "tg-1").output.strip().split("\n\n")

    assert [len(part.splitlines()) for part in blocks] == [3] * len(AGENTS)
    assert blocks[0].splitlines() == [
        "Claude Code (claude-code)",
        "export ANTHROPIC_BASE_URL=https://gw.test",
        "export ANTHROPIC_API_KEY=tg-1",
    ]


def test_a_named_agent_alone_is_printed_as_json() -> None:
    document = json.loads(run("aider", "--json", "--model", "gpt-5.5").output)

    assert [agent["name"] for agent in document] == ["aider"]
    assert document[0]["lines"][1] == "aider --model openai/gpt-5.5"


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
    result = run("emacs")

    assert result.exit_code != 0
    assert "claude-code" in result.output + result.stderr
