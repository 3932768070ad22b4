"""The caller's cache markers, as the cache of its route takes them."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.entries import REGIMES
from proxy.providers.openai.chat_marks import translate_marks

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
POINT = {"mode": "explicit"}
LONG = {"mode": "explicit", "ttl": "12h"}
OPENAI = "openai-breakpoint"
WITHOUT = sorted(set(REGIMES) - {OPENAI, "anthropic-breakpoint"})


def text_part(text: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": text, **more}


def message(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


def translate(regime: str, **body: Any) -> tuple[Any, tuple[str, ...]]:
    translated = translate_marks(orjson.dumps(body), regime)
    return orjson.loads(translated.body), translated.notes


def content(regime: str, content: object, role: str = "user", **more: object) -> Any:
    body, _ = translate(regime, messages=[message(role, content, **more)])
    return body["messages"][0]["content"]


@pytest.mark.parametrize("mark", [MARK, HOUR])
def test_to_openai_a_marker_is_a_breakpoint_that_costs_no_more(mark: object):
    body, notes = translate(
        OPENAI, messages=[message("system", [text_part("a", cache_control=mark)])]
    )

    assert body["messages"][0]["content"] == [text_part("a", prompt_cache_breakpoint=POINT)]
    assert notes == ("said 1 cache markers as breakpoints, stored for 30 minutes",)


def test_openais_own_breakpoints_keep_their_lifetime():
    own = [text_part("a", prompt_cache_breakpoint=LONG)]
    both = [text_part("a", prompt_cache_breakpoint=LONG, cache_control=MARK)]
    raw = orjson.dumps({"messages": [message("user", own)], "prompt_cache_options": POINT})

    assert translate_marks(raw, OPENAI).body is raw
    assert translate(OPENAI, messages=[message("user", both)]) == (
        {"messages": [message("user", own)]},
        (),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a", [text_part("a", prompt_cache_breakpoint=POINT)]),
        (
            [text_part("a"), text_part("b")],
            [text_part("a"), text_part("b", prompt_cache_breakpoint=POINT)],
        ),
        (
            [text_part("a", prompt_cache_breakpoint=LONG)],
            [text_part("a", prompt_cache_breakpoint=LONG)],
        ),
    ],
)
def test_a_messages_own_marker_goes_on_its_last_part(before: object, after: object):
    body, _ = translate(OPENAI, messages=[message("user", before, cache_control=MARK)])

    assert body == {"messages": [message("user", after)]}


@pytest.mark.parametrize("before", [None, [], [7], [{"type": "refusal", "refusal": "no"}], 7])
def test_where_no_breakpoint_can_stand_the_marker_is_taken_off(before: object):
    body, notes = translate(OPENAI, messages=[message("user", before, cache_control=MARK)])

    assert body == {"messages": [message("user", before)]}
    assert notes == ("dropped 1 cache markers: this model takes none there",)


def test_to_openai_nothing_of_the_assistant_and_no_tool_is_marked():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    inner = {"name": "f", "parameters": {"cache_control": {}}}
    tool = {"type": "function", "function": inner}
    marked = {"type": "function", "function": inner | {"cache_control": MARK}}
    body, notes = translate(
        OPENAI,
        tools=[tool | {"cache_control": MARK}, marked, tool],
        messages=[
            message("assistant", [text_part("a", cache_control=MARK)], cache_control=MARK),
            message("assistant", None, tool_calls=[call | {"cache_control": MARK}, call]),
        ],
    )

    assert body["tools"] == [tool] * 3
    assert body["messages"][0] == message("assistant", [text_part("a")])
    assert body["messages"][1]["tool_calls"] == [call, call]
    assert notes == ("dropped 5 cache markers: this model takes none there",)


def test_the_marker_of_the_whole_body_is_what_openai_does_by_itself():
    assert translate(OPENAI, cache_control=MARK, messages=[]) == ({"messages": []}, ())


def test_a_responses_call_is_understood_too():
    text = {"type": "input_text", "text": "a"}
    output = {"type": "function_call_output", "call_id": "c", "output": [text]}
    body, _ = translate(
        OPENAI,
        input=[
            message("user", [text | {"cache_control": MARK}]),
            message("user", "a", cache_control=MARK),
            output | {"cache_control": MARK},
            output | {"output": '{"cache_control": 1}'},
        ],
    )
    marked = text | {"prompt_cache_breakpoint": POINT}

    assert [item.get("content") or item["output"] for item in body["input"]] == [
        [marked],
        [marked],
        [marked],
        '{"cache_control": 1}',
    ]


@pytest.mark.parametrize("regime", WITHOUT)
def test_where_there_are_no_markers_all_are_taken_off(regime: str):
    body, notes = translate(
        regime,
        messages=[
            message("system", [text_part("a", prompt_cache_breakpoint=LONG)], cache_control=None),
            message("user", [text_part("b", cache_control=HOUR), text_part("c")]),
        ],
        tools=[{"type": "function", "function": {"name": "f"}, "cache_control": MARK}],
        prompt_cache_options=POINT,
        prompt_cache_key="k",
        cache_control=MARK,
    )

    assert body == {
        "messages": [
            message("system", [text_part("a")]),
            message("user", [text_part("b"), text_part("c")]),
        ],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "prompt_cache_key": "k",
    }
    assert notes == (
        "dropped 3 cache markers: this model takes none there",
        "dropped prompt_cache_options: this model has none",
    )


@pytest.mark.parametrize("regime", ["", "anthropic-breakpoint", "made-up"])
def test_where_markers_may_mean_something_they_stay(regime: str):
    raw = orjson.dumps({"messages": [message("user", [text_part("a", cache_control=MARK)])]})

    assert translate_marks(raw, regime).body is raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"role":"user","content":"say \\"cache_control\\""}],"n": 1}',
        b'{"messages":"cache_control","x":"cache_control"}',
        b'{"x":{"cache_control":{}},"tools":{"cache_control":1},"messages":7}',
        b'["cache_control"]',
        b'{"messages":[{"cache_control":1]}',
        b'{"messages":[{"cache_control":{}},\xff]}',
        b'{"messages":[{"role":"user","content":[{"type":7,"text":"\\"cache_control\\""}]}]}',
    ],
)
@pytest.mark.parametrize("regime", [OPENAI, "implicit"])
def test_a_body_without_markers_or_unreadable_goes_unmodified(raw: bytes, regime: str):
    translated = translate_marks(raw, regime)

    assert (translated.body, translated.notes) == (raw, ())


_MARKS = st.sampled_from([{}, {"cache_control": MARK}, {"prompt_cache_breakpoint": LONG}])
_PARTS = st.lists(
    st.builds(lambda text, mark: text_part(text, **mark), st.text(), _MARKS), max_size=3
)
_MESSAGES = st.lists(
    st.builds(
        lambda role, content, mark: message(role, content, **mark),
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.one_of(st.text(), _PARTS),
        _MARKS,
    ),
    max_size=4,
)


def words(messages: list[Any]) -> list[Any]:
    """Roles and texts; a text and one part of it are the same."""
    return [
        (
            message["role"],
            c if isinstance(c := message["content"], str) else "".join(p["text"] for p in c),
        )
        for message in messages
    ]


@given(_MESSAGES, st.sampled_from(sorted(REGIMES)))
def test_marking_a_chat_body_adds_markers_only_and_only_once(messages: list[Any], regime: str):
    raw = orjson.dumps({"messages": messages, "n": 1})
    once = translate_marks(raw, regime)
    again = translate_marks(once.body, regime)

    assert words(orjson.loads(once.body)["messages"]) == words(messages)
    assert (again.body, again.notes) == (once.body, ())
    if regime in WITHOUT:
        assert b"cache_" not in once.body.replace(b"prompt_cache_key", b"")
    if regime == OPENAI:
        assert b'"cache_control"' not in once.body
