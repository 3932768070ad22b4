"""Coding agents, by what they send."""

from string import Template

import orjson
import pytest

from proxy.records.agents import (
    AGENT_HEADS,
    AGENTS,
    BACKGROUND_FEATURE,
    agent_feature,
    agent_of_fields,
    agent_of_product,
    agent_tag,
    stable_user,
)
from proxy.records.request_fields import parse_request_fields
from proxy.settings import read

NAMES = [agent.name for agent in AGENTS]


def _agent(body: bytes) -> str:
    return agent_of_fields(parse_request_fields(body))


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("claude-cli/2.1.197 (external, sdk-cli)", "claude-code"),
        ("codex_exec/0.169.0 (Debian 13; x86_64)", "codex"),
        ("codex_cli_rs/0.169.0", "codex"),
        ("OpenAI/Python 3.52.0", ""),
        ("", ""),
    ],
)
def test_an_agent_is_known_by_its_user_agent(product: str, name: str) -> None:
    assert agent_of_product(product) == name


@pytest.mark.parametrize("head", AGENT_HEADS)
def test_an_agent_is_known_by_how_its_instructions_begin(head: str) -> None:
    (name,) = [agent.name for agent in AGENTS if head in agent.heads]
    chat = {"messages": [{"role": "system", "content": f"{head}, and more."}]}
    native = {"system": [{"type": "text", "text": f"\n{head}, and more."}], "messages": []}

    assert _agent(orjson.dumps(chat)) == name
    assert _agent(orjson.dumps(native)) == name


NAME = {"type": "text", "text": "You are Claude Code, and more."}
MARKED = {**NAME, "cache_control": {"type": "ephemeral"}}
TOOL = {"name": "look", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("body", "feature"),
    [
        ({"system": [NAME], "tools": []}, BACKGROUND_FEATURE),
        ({"system": [NAME]}, BACKGROUND_FEATURE),
        ({"system": [{"type": "text", "text": 'You are Claude Code: "cache_control"'}]},
         BACKGROUND_FEATURE),
        ({"system": [MARKED], "tools": []}, "claude-code"),
        ({"system": [NAME], "tools": [TOOL]}, "claude-code"),
        ({"system": [MARKED], "tools": [TOOL]}, "claude-code"),
    ],
)  # fmt: skip
def test_calls_of_claude_code_beside_its_sessions_are_a_feature_of_their_own(
    body: dict[str, object], feature: str
) -> None:
    read_fields = parse_request_fields(orjson.dumps({**body, "messages": []}))

    assert agent_feature("claude-code", read_fields) == feature
    assert agent_feature("", read_fields) == feature


def test_a_call_of_another_agent_or_of_none_is_not_parted_by_its_tools() -> None:
    read_fields = parse_request_fields(b'{"messages":[]}')

    assert agent_feature("codex", read_fields) == "codex"
    assert agent_feature("", read_fields) == ""


def test_the_instructions_of_a_responses_call_may_stand_behind_its_tools() -> None:
    tools = {"type": "additional_tools", "tools": [{"name": "shell", "description": "x" * 30_000}]}
    message = {"role": "developer", "content": "You are Codex, and more."}

    assert _agent(orjson.dumps({"input": [tools, message]})) == "codex"
    assert _agent(orjson.dumps({"instructions": message["content"], "input": "Hi."})) == "codex"


def test_no_agent_is_looked_for_behind_the_first_kilobyte_of_messages() -> None:
    long = {"role": "user", "content": "x" * 1_500}
    late = {"role": "user", "content": "You are Cline, you said."}

    assert _agent(orjson.dumps({"messages": [long, late]})) == ""


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"system":"You are a poet."}',
        b'{"messages":[{"content":"Is it You are Roo?"}]}',
        b'{"messages":null,"system":7,"input":{}}',
    ],
)
def test_other_bodies_are_no_agents(body: bytes) -> None:
    assert _agent(body) == ""


def test_a_shell_with_every_agents_variables_still_runs_our_commands() -> None:
    lines = [line for agent in AGENTS for line in agent.lines if line.startswith("export ")]
    pairs = [word.split("=", 1) for line in lines for word in line.split()[1:]]

    assert len(pairs) >= 5
    read(dict(pairs))


def test_every_agent_that_can_be_pointed_here_has_two_lines_that_name_gateway_and_key() -> None:
    for agent in (agent for agent in AGENTS if agent.heads):
        filled = [Template(line).substitute(url="U", key="K", model="M") for line in agent.lines]

        assert len(filled) == 2
        assert "U" in "".join(filled)
        assert "K" in "".join(filled)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize(
    ("user_id", "user"),
    [
        ("u-1", "u-1"),
        ('{"device_id":"d","account_uuid":"a","session_id":"s"}', "a"),
        ('{"device_id":"d","account_uuid":"","session_id":"s"}', "d"),
        ('{"session_id":"s"}', '{"session_id":"s"}'),
        ("{broken", "{broken"),
        ('{"device_id":7}', '{"device_id":7}'),
    ],
)
def test_a_user_is_the_same_in_every_session(user_id: str, user: str) -> None:
    assert stable_user(user_id) == user


@pytest.mark.parametrize(
    ("product", "agent"),
    [
        ("QwenCode/0.24.4 (linux; x64)", "qwen-code"),
        ("Charm-Crush/v0.96.1 (https://charm.land/crush)", "crush"),
    ],
)
def test_qwen_code_and_crush_are_known_by_their_user_agents(product: str, agent: str) -> None:
    assert agent_of_product(product) == agent


@pytest.mark.parametrize(
    ("user_agent", "tag"),
    [
        ("codex_cli_rs/0.169.0", "codex"),
        ("OpenAI/Python 3.52.0", "openai-python"),
        ("AsyncOpenAI/Python 3.52.0", "openai-python"),
        ("Anthropic/JS 0.70.1", "anthropic-js"),
        ("Go-http-client/1.1", "go-http-client"),
        ("python-requests/2.32.5", "python-requests"),
        ("my_app-1.2.3", "my_app"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("(nothing)", ""),
        ("", ""),
    ],
)
def test_the_agent_of_a_call_has_no_version(user_agent: str, tag: str) -> None:
    assert agent_tag(user_agent, None) == tag


def test_gemini_cli_is_listed_as_one_that_cannot_be_pointed_here() -> None:
    (preset,) = [agent for agent in AGENTS if agent.name == "gemini-cli"]

    assert "generateContent" in preset.lines[0]
