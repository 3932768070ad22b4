"""A chat completions body as a Messages body."""

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import Route, Upstream
from proxy.errors import CallerError
from proxy.providers.anthropic.answer import WholeAnswer
from proxy.providers.anthropic.request import messages_body
from tests.examples import examples
from tests.fakes.refusals import refusing

_RECORDED = Path(__file__).resolve().parents[3] / "../shared/data/A"
_TRAITS = ["sampling", "forced_tools", "adaptive_thinking", "budget_thinking", "mid_system"]
_ALL = frozenset({"sampling", "forced_tools", "budget_thinking", "structured", "prefill"})


def _route(traits: frozenset[str] = _ALL, model: str = "claude") -> Route:
    upstream = Upstream(name="a", kind="anthropic", base_url="https://a.test/v1")
    return Route(name="a/claude", upstream=upstream, model=model, traits=traits)


def _said(body: dict[str, Any], route: Route | None = None) -> dict[str, Any]:
    said = messages_body(orjson.dumps(body), route or _route())
    found: dict[str, Any] = orjson.loads(said.body)
    return found


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools", [])
    yield from body.get("system", [])
    for message in body["messages"]:
        yield from message["content"]


def check(body: dict[str, Any]) -> None:
    """Raise an AssertionError unless the body keeps the rules of the Messages API."""
    assert isinstance(body["model"], str)
    assert body["max_tokens"] >= 1
    assert sum("cache_control" in block for block in _blocks(body)) <= 4
    assert all(block["text"].strip() for block in _blocks(body) if block.get("type") == "text")
    assert all(block["type"] == "text" for block in body.get("system", []))
    assert all(tool["input_schema"]["type"] for tool in body.get("tools", []))
    messages = body["messages"]
    assert messages[0]["role"] == "user"
    assert all(message["content"] for message in messages)
    ids = [block["id"] for block in _blocks(body) if block.get("type") == "tool_use"]
    assert len(ids) == len(set(ids))
    for one, other in pairwise([*messages, {"role": "end", "content": []}]):
        _check_pair(one, other)


def _check_pair(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["role"] != other["role"]
    if one["role"] == "system":
        assert other["role"] in {"assistant", "end"}
    kinds = [block["type"] for block in other["content"]]
    results = [block for block in other["content"] if block["type"] == "tool_result"]
    assert kinds[: len(results)] == ["tool_result"] * len(results)
    calls = [block for block in one["content"] if block["type"] == "tool_use"]
    assert sorted(call["id"] for call in calls) == sorted(one["tool_use_id"] for one in results)
    assert all(isinstance(call["input"], dict) for call in calls)


def _call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
_ASKED = {
    "model": "public",
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "ok", "tool_calls": [_call("c1", '{"b": 1, "a": 2}')]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": "and?"},
    ],
    "tools": [_TOOL],
    "tool_choice": "required",
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_completion_tokens": 50,
    "stop": ["END"],
    "temperature": 0.3,
    "user": "u1",
    "service_tier": "default",
    "seed": 7,
}
_SENT = {
    "model": "claude",
    "max_tokens": 50,
    "stream": True,
    "system": [{"type": "text", "text": "be kind"}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c1",
                    "content": [{"type": "text", "text": "done"}],
                },
                {"type": "text", "text": "and?"},
            ],
        },
    ],
    "stop_sequences": ["END"],
    "service_tier": "standard_only",
    "metadata": {"user_id": "u1"},
    "temperature": 0.3,
}


def test_a_whole_call_is_said_in_anthropics_words() -> None:
    said = messages_body(orjson.dumps(_ASKED), _route())

    assert said.notes == ("dropped seed: the model has no such parameter",)
    check(orjson.loads(said.body))
    assert orjson.loads(said.body) == _SENT


def test_blocks_of_the_model_go_back_byte_for_byte() -> None:
    content = (
        b'[{"type":"thinking","thinking":"hm","signature":"zz=="},{"type":"text","text":"ok"},'
        b'{"type":"tool_use","id":"t1","name":"f","input":{"b": 1.0, "a": [1,  2]}}]'
    )
    answer = WholeAnswer(model="m", created=1).feed(b'{"content":' + content + b"}")
    message = orjson.loads(answer)["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "t1", "content": "r"}
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}, message, result]}

    assert content in messages_body(orjson.dumps(body), _route()).body


def _hello(**fields: Any) -> dict[str, Any]:
    return {"model": "public", "messages": [{"role": "user", "content": "hi"}], **fields}


def test_a_route_without_a_name_of_its_own_keeps_the_callers() -> None:
    assert _said(_hello(), _route(model=""))["model"] == "public"


def test_a_schema_for_the_answer_is_sent_where_the_model_can_promise_it() -> None:
    schema = {"type": "object", "properties": {"z": {}, "a": {}}, "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    said = messages_body(orjson.dumps(_hello(response_format=form)), _route())

    assert orjson.dumps(schema) in said.body
    assert orjson.loads(said.body)["output_config"]["format"]["schema"] == schema
    with refusing(400) as caught:
        _said(_hello(response_format=form), _route(frozenset()))
    assert caught.value.param == "response_format"


def test_any_json_is_asked_for_in_words_after_the_callers_own() -> None:
    said = _said(_hello(response_format={"type": "json_object"}))

    assert said["system"][-1]["text"].startswith("Answer with one JSON object")
    assert "output_config" not in said
    assert "system" not in _said(_hello(response_format={"type": "text"}))


def test_an_open_schema_is_closed_with_a_note() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    said = messages_body(
        orjson.dumps(_hello(response_format=form)), _route(frozenset({"structured"}))
    )

    assert orjson.loads(said.body)["output_config"]["format"] == {
        "type": "json_schema",
        "schema": {"type": "object", "additionalProperties": False},
    }
    assert said.notes == ("closed the objects of response_format: the model promises no others",)


@pytest.mark.parametrize("form", [{"type": "xml"}, {"type": "json_schema"}])
def test_a_form_that_is_none_is_refused(form: dict[str, Any]) -> None:
    with refusing(400):
        _said(_hello(response_format=form))


def test_effort_and_format_share_their_field() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    said = _said(
        _hello(response_format=form, reasoning_effort="high", temperature=0.1),
        _route(frozenset({"adaptive_thinking", "structured", "sampling"})),
    )

    assert set(said["output_config"]) == {"effort", "format"}
    assert said["thinking"]["type"] == "adaptive"
    assert "temperature" not in said


def test_more_markers_than_the_model_takes_are_thinned_and_all_keep_their_ttl() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    part = {"type": "text", "text": "a", "cache_control": hour}
    body = _hello(messages=[{"role": "user", "content": [part] * 6}])
    marks = [block.get("cache_control") for block in _blocks(_said(body))]

    assert marks == [hour, None, None, hour, hour, hour]
    automatic = _said(body | {"cache_control": {"type": "ephemeral"}})
    assert automatic["cache_control"] == {"type": "ephemeral"}
    assert sum("cache_control" in block for block in _blocks(automatic)) == 3


def test_fields_for_anthropic_alone_pass() -> None:
    said = _said(_hello(top_k=5, context_management={"edits": []}, thinking={"type": "disabled"}))

    assert said["top_k"] == 5
    assert said["context_management"] == {"edits": []}
    assert said["thinking"] == {"type": "disabled"}


def test_a_name_is_dropped_with_a_note() -> None:
    body = _hello(messages=[{"role": "user", "name": "ann", "content": "hi"}])

    assert messages_body(orjson.dumps(body), _route()).notes == (
        "dropped name: this model's messages carry none",
    )


def test_no_messages_is_refused() -> None:
    with refusing(400) as caught:
        _said(_hello(messages=[]))

    assert caught.value.param == "messages"


def _outcome(body: bytes, traits: frozenset[str]) -> dict[str, Any] | CallerError:
    """Return what is sent, checked; or why nothing is."""
    try:
        said: dict[str, Any] = orjson.loads(messages_body(body, _route(traits)).body)
    except CallerError as error:
        return error
    check(said)
    return said


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
_CALLS = st.lists(st.builds(_call, _IDS, st.sampled_from(["", "{}", "[]", '{"x": 1}'])), max_size=2)


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
    body = orjson.dumps(_hello(messages=messages, reasoning_effort=effort))
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
            "tool_calls": [_call("a") | _MARK, _call("b")],
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
    """Where every member of a JSON value is."""
    if not isinstance(value, dict | list):
        return
    for name in value if isinstance(value, dict) else range(len(value)):
        yield (*path, name)
        yield from _paths(value[name], (*path, name))


def _changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with one member replaced; as it is where there is no such member any more."""
    if not path:
        return new
    if not isinstance(value, dict | list):
        return value
    copy = value.copy()
    with suppress(KeyError, IndexError, TypeError):
        copy[path[0]] = _changed(value[path[0]], path[1:], new)
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
    assert isinstance(_outcome(orjson.dumps(_RICH), _ALL), dict)


@pytest.mark.slow
@examples(250)
@given(_CHANGES, _TRAIT_SETS)
def test_any_wrong_value_anywhere_is_either_said_or_refused_by_name(
    changes: list[tuple[tuple[Any, ...], Any]], traits: frozenset[str]
) -> None:
    body = _RICH
    for path, new in changes:
        body = _changed(body, path, new)
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
            said = _said({"model": "m", "messages": messages[:number], "tools": tools})
            check(said)
            blocks = list(_blocks(said))

            assert blocks[: len(before)] == before
            before = blocks


def test_recorded_calls_of_an_agent_framework_can_be_said() -> None:
    yaml = pytest.importorskip("yaml")
    folder = _RECORDED / "crewAIInc+crewAI"
    if not folder.is_dir():
        pytest.skip("the recorded crewAI calls are not here")
    said = 0
    for path in sorted(folder.rglob("*.yaml"))[:60]:
        loaded = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for one in loaded["interactions"]:
            if "chat/completions" in one["request"]["uri"] and one["request"]["body"]:
                check(_said(orjson.loads(one["request"]["body"])))
                said += 1

    assert said > 30


def test_a_compaction_on_demand_gets_no_turn_of_ours_behind_the_answer() -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    body = orjson.dumps({"messages": talk, "compaction": {"type": "summarize"}})
    found = messages_body(body, _route())
    said = orjson.loads(found.body)

    assert [message["role"] for message in said["messages"]] == ["user", "assistant"]
    assert said["compaction"] == {"type": "summarize"}
    assert (found.betas, found.notes) == (("compact-2026-09-04",), ())
