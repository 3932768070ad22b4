"""Tests of what Anthropic's API refuses."""

from typing import Any

import pytest

from proxy.errors import UpstreamError
from proxy.tools.simulator.apis.messages_rules import check
from proxy.tools.simulator.models import MODELS
from proxy.tools.simulator.replies import signature
from tests.proxy.tools.simulator.scene import CLAUDE_TOOL, user

OLDER, NEWER = MODELS["claude-haiku-4-5"], MODELS["claude-sonnet-5-5"]
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
USE = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}
OTHER_USE = USE | {"id": "t2"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
CALLED = {"role": "assistant", "content": [USE]}
ANSWERED = {"role": "user", "content": [RESULT]}
CLOSED = {"type": "object", "additionalProperties": False}
BOUNDED = CLOSED | {"properties": {"n": {"type": "integer", "minimum": 1}}}
SCHEMA = {"type": "json_schema", "schema": CLOSED}


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 2000, "messages": list(messages) or [user("a")]} | fields


def strict_tool(schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": "f", "input_schema": schema, "strict": True}


def text(content: str, mark: object = None) -> dict[str, Any]:
    return {"type": "text", "text": content} | ({"cache_control": mark} if mark else {})


def marked_message(*marks: object) -> dict[str, Any]:
    return {"role": "user", "content": [text("a", mark) for mark in marks]}


@pytest.mark.parametrize(
    "good",
    [
        body(),
        body(user("a"), user("b")),
        body(user("a"), CALLED, ANSWERED, tools=[CLAUDE_TOOL]),
        body(user("a"), {"role": "assistant", "content": "So"}),
        body(max_tokens=0),
        body(temperature=0.5, stop_sequences=["x"]),
        body(tools=[CLAUDE_TOOL], tool_choice={"type": "any"}),
        body(thinking={"type": "enabled", "budget_tokens": 1024}),
        body(thinking={"type": "disabled"}),
        body(output_config={"format": SCHEMA}),
        body(tools=[strict_tool(CLOSED), CLAUDE_TOOL | {"input_schema": BOUNDED}]),
        body(marked_message(HOUR, HOUR, MARK, MARK)),
        body(marked_message(MARK, MARK, MARK, None), cache_control=MARK),
        body(marked_message(MARK, MARK, MARK, MARK), cache_control=MARK),
    ],
)
def test_a_body_that_an_older_model_accepts_passes(good: dict[str, Any]) -> None:
    check(good, OLDER)


@pytest.mark.parametrize(
    "good",
    [
        body(thinking={"type": "adaptive"}),
        body(user("a"), {"role": "system", "content": "b"}),
    ],
)
def test_a_body_that_a_newer_model_accepts_passes(good: dict[str, Any]) -> None:
    check(good, NEWER)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (body(frequency_penalty=1), "frequency_penalty: Extra inputs"),
        ({"model": "m", "messages": [user("a")]}, "max_tokens: Field required"),
        (body(max_tokens="5"), "max_tokens"),
        (body(max_tokens=0, stream=True), "max_tokens"),
        (body(stop_sequences=[" "]), "stop_sequences"),
        (body(messages=[]), "messages: Field required"),
        (body({"role": "assistant", "content": "a"}, user("b")), "first message"),
        (body({"role": "system", "content": "a"}), "role"),
        (body(user("a"), {"role": "assistant", "content": "So "}), "trailing whitespace"),
        (
            body(
                user("a"),
                {"role": "assistant", "content": [text("So")]},
                thinking={"type": "enabled", "budget_tokens": 1024},
            ),
            "thinking enabled",
        ),
        (body({"role": "user", "content": ""}), "content: must not be empty"),
        (body({"role": "user"}), "content: must not be empty"),
        (body({"role": "user", "content": [text("")]}), "non-empty"),
        (body(user("a"), CALLED), "prefilled|without a result"),
        (body(user("a"), CALLED, user("b")), "without a `tool_result`"),
        (body(ANSWERED), "without a `tool_use`"),
        (
            body(user("a"), CALLED, {"role": "user", "content": [text("b"), RESULT]}),
            "must come first",
        ),
        (
            body(user("a"), {"role": "assistant", "content": [USE, OTHER_USE]}, ANSWERED),
            "t2",
        ),
        (body(temperature=1.5), "temperature"),
        (body(thinking={"type": "adaptive"}), "adaptive"),
        (body(thinking={"type": "enabled", "budget_tokens": 1000}), "budget_tokens"),
        (body(thinking={"type": "enabled", "budget_tokens": 2000}), "budget_tokens"),
        (body(thinking={"type": "enabled"}), "budget_tokens"),
        (body(tool_choice={"type": "auto"}), "together with tools"),
        (body(tools=[CLAUDE_TOOL], tool_choice={"type": "tool", "name": "x"}), "no tool 'x'"),
        (body(output_config={"format": {"schema": {"type": "object"}}}), "additionalProperties"),
        (body(output_config={"format": {"schema": BOUNDED}}), "'minimum' is not supported"),
        (body(tools=[strict_tool(BOUNDED)]), "tools.0.custom.input_schema: property 'minimum'"),
        (body(tools=[strict_tool(CLOSED | {"properties": {"a": {"$ref": "#"}}})]), "recursive"),
        (body(marked_message(MARK, MARK, MARK, MARK, MARK)), "at most 4"),
        (body(marked_message(MARK, HOUR)), "must not follow"),
        (body(marked_message(MARK, MARK, MARK, MARK, None), cache_control=MARK), "conflicts"),
        (body(marked_message(MARK), cache_control=HOUR), "conflicts"),
    ],
)
def test_a_body_that_an_older_model_rejects_is_refused(bad: dict[str, Any], reason: str) -> None:
    with pytest.raises(UpstreamError, match=reason) as refused:
        check(bad, OLDER)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (body(temperature=1), "temperature: not supported"),
        (body(user("a"), {"role": "assistant", "content": "So"}), "prefilled"),
        (body(thinking={"type": "disabled"}), "cannot be disabled"),
        (body(thinking={"type": "enabled", "budget_tokens": 1024}), "enabled"),
        (body(tools=[CLAUDE_TOOL], tool_choice={"type": "any"}), "any"),
        (body({"role": "system", "content": "b"}, user("a")), "must follow a user"),
    ],
)
def test_a_body_that_a_newer_model_rejects_is_refused(bad: dict[str, Any], reason: str) -> None:
    with pytest.raises(UpstreamError, match=reason):
        check(bad, NEWER)


def test_a_model_without_structured_output_refuses_a_format() -> None:
    with pytest.raises(UpstreamError, match="not supported"):
        check(body(output_config={"format": SCHEMA}), MODELS["gpt-5.5"])


def test_a_thinking_block_keeps_its_signature_and_takes_no_mark() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
    message = {"role": "assistant", "content": [thought, text("So.")]}

    check(body(user("a"), message, user("b")), OLDER)
    forged = message | {"content": [thought | {"thinking": "ha"}]}
    caught = message | {"content": [thought | {"cache_control": MARK}]}
    with pytest.raises(UpstreamError, match="signature"):
        check(body(user("a"), forged, user("b")), OLDER)
    with pytest.raises(UpstreamError, match="cannot be marked"):
        check(body(user("a"), caught, user("b")), OLDER)


BLOCK = {"type": "compaction", "content": "so far", "signature": "s"}
COMPACTED = {"role": "assistant", "content": [BLOCK]}


@pytest.mark.parametrize(
    "good",
    [
        body(COMPACTED, user("on")),
        body(user("a"), COMPACTED),
        body(user("a"), {"role": "assistant", "content": "b"}, compaction={"type": "summarize"}),
    ],
)
def test_a_compaction_stands_for_what_was_before_it(good: dict[str, Any]) -> None:
    check(good, NEWER)


def test_only_a_compaction_may_come_before_the_user() -> None:
    with pytest.raises(UpstreamError, match="the first message must be the user's"):
        check(body({"role": "assistant", "content": [text("a"), BLOCK]}, user("on")), NEWER)
