"""Parameters of a Messages call as chat has them."""

from typing import Any

import orjson
import pytest

from proxy.providers.messages.target import ChatTarget
from tests.fakes.messages_calls import CLAUDE, Json, chat_body_and_notes
from tests.fakes.refusals import refusing

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = OPEN | {"required": ["a"], "additionalProperties": False}
STRICT = {"name": "answer", "schema": CLOSED, "strict": True}
AGENT = {"device_id": "d" * 64, "account_uuid": "u", "session_id": "s1"}


def _said(name: str, target: ChatTarget | None = None, **fields: Any) -> Any:
    return chat_body_and_notes(target=target, **fields)[0].get(name)


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "adaptive"}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "xhigh"}}, "xhigh"),
        ({"output_config": {}}, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 8192}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, "high"),
    ],
)
def test_effort_goes_before_thinking_and_a_budget_is_an_effort(
    fields: Json, effort: str | None
) -> None:
    assert _said("reasoning_effort", **fields) == effort


def test_claude_gets_thinking_and_effort_as_they_are() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2048, "display": "omitted"}
    fields: Json = {"thinking": thinking, "output_config": {"effort": "low"}}

    assert _said("thinking", CLAUDE, **fields) == thinking
    assert _said("reasoning_effort", CLAUDE, **fields) == "low"
    assert _said("reasoning_effort", CLAUDE, thinking=thinking) is None


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_a_schema_for_the_answer_is_strict_where_chat_takes_it(field: str) -> None:
    form = {"type": "json_schema", "schema": CLOSED}
    fields: Json = {field: {"format": form} if field == "output_config" else form}

    assert _said("response_format", **fields) == {"type": "json_schema", "json_schema": STRICT}


def test_an_open_schema_is_sent_without_strict_and_noted() -> None:
    form = {"type": "json_schema", "schema": OPEN}
    body, notes = chat_body_and_notes(output_config={"format": form})

    assert "strict" not in body["response_format"]["json_schema"]
    assert notes == ("the answer's schema is not strict: it has open parts or is composed",)


@pytest.mark.parametrize(
    ("fields", "chat"),
    [
        ({"temperature": 0.5, "top_p": 0.9, "top_k": 7},
         {"temperature": 0.5, "top_p": 0.9, "top_k": 7}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"stop_sequences": ["END"]}, {"stop": ["END"]}),
        ({"stop_sequences": []}, {}),
        ({"service_tier": "standard_only"}, {"service_tier": "default"}),
        ({"service_tier": "auto"}, {}),
        ({"metadata": {"user_id": "u1"}}, {"user": "u1"}),
        ({"metadata": {}}, {}),
    ],
)  # fmt: skip
def test_a_parameter_is_said_by_the_name_that_chat_has(fields: Json, chat: Json) -> None:
    usual = chat_body_and_notes()[0]

    assert chat_body_and_notes(**fields)[0] == usual | chat


def test_openai_gets_the_end_user_as_its_safety_identifier() -> None:
    target = ChatTarget(user_field="safety_identifier")

    assert _said("safety_identifier", target, metadata={"user_id": "u1"}) == "u1"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (orjson.dumps(AGENT).decode(), orjson.dumps(AGENT | {"session_id": "s2"}).decode()),
        (f"user_{'a' * 64}_account_b_session_c", f"user_{'a' * 64}_account_b_session_d"),
    ],
)
def test_sessions_of_one_agent_are_one_user_in_at_most_64_characters(one: str, other: str) -> None:
    first = _said("user", metadata={"user_id": one})

    assert first == _said("user", metadata={"user_id": other})
    assert len(first) <= 64
    assert first != _said("user", metadata={"user_id": one.replace("a", "x", 1)})
    assert _said("user", CLAUDE, metadata={"user_id": one}) == one


@pytest.mark.parametrize("name", ["{", "{}", "_session_", '{"session_id":"s"}'])
def test_a_user_that_only_looks_like_an_agents_is_still_one(name: str) -> None:
    assert _said("user", metadata={"user_id": name}) == name


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"output_config": {"effort": "huge"}}, "output_config.effort", "must be low"),
        ({"thinking": {"type": "enabled"}}, "thinking", "with `budget_tokens`"),
        ({"thinking": {"type": "maybe"}}, "thinking", "must be adaptive"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format", "`schema`"),
        ({"output_format": {"type": "json_schema"}}, "output_format", "`schema`"),
        ({"stop_sequences": ["a"] * 5}, "stop_sequences", "at most 4"),
        ({"service_tier": "gold"}, "service_tier", "auto or standard_only"),
    ],
)
def test_a_parameter_that_no_model_takes_is_refused_with_a_fix(
    fields: Json, param: str, words: str
) -> None:
    with refusing(400, words) as caught:
        chat_body_and_notes(target=ChatTarget(max_stops=4), **fields)

    assert caught.value.param == param


def test_stop_sequences_are_refused_where_the_model_takes_none() -> None:
    with refusing(400, "no stop sequences"):
        chat_body_and_notes(target=ChatTarget(max_stops=0), stop_sequences=["a"])
