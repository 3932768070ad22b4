"""Any chat body keeps the rules of the Messages API or is refused by name."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import CallerError
from proxy.providers.anthropic.request import messages_body
from tests.examples import examples
from tests.proxy.providers.anthropic.messages_bodies import (
    ALL_TRAITS,
    blocks_of,
    check,
    hello,
    route_with,
    tool_call,
    translate,
)

_RECORDED = Path(__file__).resolve().parents[3] / "../shared/data/A"
_TRAITS = ["sampling", "forced_tools", "adaptive_thinking", "budget_thinking", "mid_system"]


def _outcome(body: bytes, traits: frozenset[str]) -> dict[str, Any] | CallerError:
    """Return what is sent, checked; or why nothing is."""
    try:
        sent: dict[str, Any] = orjson.loads(messages_body(body, route_with(traits)).body)
    except CallerError as error:
        return error
    check(sent)
    return sent


_WORDS = st.sampled_from(["", " ", "hi", "…"])
_MARKS = st.fixed_dictionaries(
    {},
    optional={
        "cache_control": st.just({"type": "ephemeral"}),
        "prompt_cache_breakpoint": st.fixed_dictionaries({}, optional={"ttl": st.just("12h")}),
    },
)


def _with_marks(values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda one, mark: one | mark, st.fixed_dictionaries(values), _MARKS)


_PARTS = st.one_of(
    _with_marks({"type": st.just("text"), "text": _WORDS}),
    _with_marks({"type": st.just("refusal"), "refusal": _WORDS}),
    _with_marks(
        {
            "type": st.just("image_url"),
            "image_url": st.sampled_from([{"url": "data:image/png;base64,AA=="}, {"url": "x"}]),
        }
    ),
)
_CONTENT = st.none() | _WORDS | st.lists(_PARTS, max_size=3)
_IDS = st.sampled_from(["a", "b", "c.1"])
_CALLS = st.lists(
    st.builds(tool_call, _IDS, st.sampled_from(["", "{}", "[]", '{"x": 1}'])), max_size=2
)


def _exchange(content: Any, calls: list[dict[str, Any]], answer: Any) -> list[dict[str, Any]]:
    answers = [{"role": "tool", "tool_call_id": call["id"], "content": answer} for call in calls]
    return [{"role": "assistant", "content": content, "tool_calls": calls}, *answers]


_SPOKEN = _with_marks(
    {"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": _CONTENT}
).map(lambda message: [message])
_ANSWERED = st.builds(_exchange, _WORDS, _CALLS, _CONTENT)
_CONVERSATIONS = st.lists(_SPOKEN | _ANSWERED, min_size=1, max_size=6).map(
    lambda runs: [message for run in runs for message in run]
)
_TRAIT_SETS = st.frozensets(st.sampled_from([*_TRAITS, "structured", "prefill"]))


@pytest.mark.slow
@given(_CONVERSATIONS, _TRAIT_SETS, st.sampled_from([None, "none", "low", "high"]))
def test_a_translated_request_keeps_the_rules_of_the_messages_api(
    messages: list[dict[str, Any]], traits: frozenset[str], effort: str | None
) -> None:
    body = orjson.dumps(hello(messages=messages, reasoning_effort=effort))
    outcome = _outcome(body, traits)

    assert isinstance(outcome, dict) or (outcome.param or "").startswith("messages")
    assert str(outcome) == str(_outcome(body, traits))


_MARK = {"cache_control": {"type": "ephemeral"}}
_RICH: dict[str, Any] = {
    "model": "public",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s"} | _MARK]},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "a", "prompt_cache_breakpoint": {"ttl": "30m"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "file", "file": {"file_data": "data:text/plain;base64,YQ=="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "refusal": "r",
            "thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}],
            "tool_calls": [tool_call("a") | _MARK, tool_call("b")],
        },
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"} | _MARK]},
        {"role": "tool", "tool_call_id": "b", "content": "2", "is_error": True},
        {"role": "developer", "content": "d"} | _MARK,
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}, "strict": True}}],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "f"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "stop": ["a"],
    "max_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "n": 1,
    "modalities": ["text"],
    "reasoning_effort": "low",
    "service_tier": "auto",
    "user": "u",
    "parallel_tool_calls": False,
    "cache_control": {"type": "ephemeral"},
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all members of a JSON value."""
    if not isinstance(value, dict | list):
        return
    for name in value if isinstance(value, dict) else range(len(value)):
        yield (*path, name)
        yield from _paths(value[name], (*path, name))


def _with_member(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with one member replaced; as it is where there is no such member any more."""
    if not path:
        return new
    if not isinstance(value, dict | list):
        return value
    copy = value.copy()
    with suppress(KeyError, IndexError, TypeError):
        copy[path[0]] = _with_member(value[path[0]], path[1:], new)
    return copy


_ODD = st.sampled_from(
    [
        *[None, True, 0, -1, 2**70, 1.5, "", "x", "function", "none", "user"],
        *[[], [[]], [None], {}, {"type": "text"}, {"type": "function"}, {"role": "user"}],
        [{"type": "text", "text": ""}],
    ]
)
_CHANGES = st.lists(st.tuples(st.sampled_from(list(_paths(_RICH))), _ODD), max_size=3)


def test_the_rich_call_can_be_said() -> None:
    assert isinstance(_outcome(orjson.dumps(_RICH), ALL_TRAITS), dict)


@pytest.mark.slow
@examples(250)
@given(_CHANGES, _TRAIT_SETS)
def test_any_wrong_value_anywhere_is_either_said_or_refused_by_name(
    changes: list[tuple[tuple[Any, ...], Any]], traits: frozenset[str]
) -> None:
    body = _RICH
    for path, new in changes:
        body = _with_member(body, path, new)
    outcome = _outcome(json.dumps(body).encode(), traits)

    assert isinstance(outcome, dict) or (outcome.param and outcome.message)


def _conversations() -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """The recorded conversations, with their tools."""
    folder = _RECORDED / "sierra-research+tau-bench"
    if not folder.is_dir():
        pytest.skip("the recorded tau-bench conversations are not here")
    tools = orjson.loads((_RECORDED / "derived/tau_bench_airline_tools.json").read_bytes())
    for path in sorted(folder.rglob("*.json")):
        for run in orjson.loads(path.read_bytes())[:40]:
            yield run["traj"], tools


def test_recorded_conversations_extend_their_own_prefix() -> None:
    for messages, tools in _conversations():
        before: list[Any] = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            body = translate({"model": "m", "messages": messages[:number], "tools": tools})
            check(body)
            blocks = list(blocks_of(body))

            assert blocks[: len(before)] == before
            before = blocks


def test_recorded_calls_of_an_agent_framework_can_be_said() -> None:
    yaml = pytest.importorskip("yaml")
    folder = _RECORDED / "crewAIInc+crewAI"
    if not folder.is_dir():
        pytest.skip("the recorded crewAI calls are not here")
    sayable = 0
    for path in sorted(folder.rglob("*.yaml"))[:60]:
        loaded = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for interaction in loaded["interactions"]:
            if (
                "chat/completions" in interaction["request"]["uri"]
                and interaction["request"]["body"]
            ):
                check(translate(orjson.loads(interaction["request"]["body"])))
                sayable += 1

    assert sayable > 30
