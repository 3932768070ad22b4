"""Marks and keys in a chat body, and what becomes of them on the wire."""

from fractions import Fraction
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given as each
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.breakpoints.policies import add_cache_key
from proxy.prefix.prompts.marks import (
    _FORMS,
    _with_mark_after,
    add_marks,
    caller_marks,
    count_caller_marks,
    route_marks,
    without_own_marks,
)
from proxy.prefix.prompts.objects import Unplannable, members
from proxy.prefix.prompts.prompt import Prompt, PromptBlock, parse_prompt
from proxy.providers.kinds import WIRES
from proxy.tools.simulator.apis import chat_bodies, messages_bodies, messages_rules
from proxy.tools.simulator.models import MODELS
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.cache_bounds import remembers_latest
from tests.examples import examples
from tests.fakes.call_dependencies import call, route
from tests.fakes.planned_body_check import assert_nothing_lost
from tests.proxy.prefix.sent_calls import blocks, fingerprint

ANTHROPIC = Regime(
    name="anthropic-breakpoint",
    provider="anthropic",
    marks=4,
    writes={"5m": Fraction(5, 4), "1h": Fraction(2)},
)
HOURLY = msgspec.structs.replace(ANTHROPIC, lifetimes={"5m": 300.0, "1h": 3_600.0})
OPENAI = Regime(name="openai-breakpoint", provider="openai", marks=4)
MARK, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
POINT = {"mode": "explicit"}
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
OTHER = CALL | {"id": "c2"}


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": text} | fields


def message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content} | fields


def prompt(*messages: Any, **fields: Any) -> Prompt:
    return parse_prompt(orjson.dumps({"model": "m", "messages": list(messages)} | fields))


def spots(of: Prompt) -> tuple[PromptBlock, ...]:
    return blocks(of, fingerprint)


def after(of: Prompt, regime: Regime, *places: tuple[int, str]) -> dict[str, Any]:
    """The body with marks after these blocks."""
    rendered = add_marks(of, [(spots(of)[at], ttl) for at, ttl in places], regime).render()
    assert_nothing_lost(of.render(), rendered)
    body: dict[str, Any] = orjson.loads(rendered)
    return body


WHOLE = prompt(
    message("system", "You help."),
    message("developer", [said("Rules."), said("More.")]),
    message("user", "What is there?"),
    message("assistant", None, tool_calls=[CALL, OTHER]),
    message("tool", "a house", tool_call_id="c1"),
    message("tool", [said("a tree")], tool_call_id="c2"),
    message("assistant", "A house and a tree."),
    message("user", [said("And here?"), PICTURE]),
    tools=[TOOL],
)


def test_anthropics_mark_goes_on_a_tool():
    assert after(WHOLE, ANTHROPIC, (0, "1h"))["tools"] == [TOOL | {"cache_control": HOUR}]


def test_a_text_becomes_a_part_that_carries_the_mark():
    body = after(WHOLE, ANTHROPIC, (1, "5m"), (4, ""))

    assert body["messages"][0]["content"] == [said("You help.", cache_control=MARK)]
    assert body["messages"][2]["content"] == [said("What is there?", cache_control=MARK)]


def test_a_mark_goes_on_the_part_that_was_meant():
    body = after(WHOLE, ANTHROPIC, (2, "1h"))

    assert body["messages"][1]["content"] == [said("Rules.", cache_control=HOUR), said("More.")]


def test_anthropics_mark_goes_on_the_last_call_and_on_tool_messages():
    body = after(WHOLE, ANTHROPIC, (5, ""), (6, ""), (7, ""), (8, ""))

    assert body["messages"][3]["tool_calls"] == [CALL, OTHER | {"cache_control": MARK}]
    assert body["messages"][4]["cache_control"] == MARK
    assert body["messages"][4]["content"] == "a house"
    assert body["messages"][5]["cache_control"] == MARK
    assert body["messages"][6]["content"] == [said("A house and a tree.", cache_control=MARK)]


def test_openais_breakpoint_goes_on_parts_of_any_kind():
    body = after(WHOLE, OPENAI, (2, "30m"), (6, "12h"), (9, ""))

    assert body["messages"][1]["content"][0] == said("Rules.", prompt_cache_breakpoint=POINT)
    assert body["messages"][4]["content"] == [
        said("a house", prompt_cache_breakpoint=POINT | {"ttl": "12h"})
    ]
    assert body["messages"][7]["content"][1] == PICTURE | {"prompt_cache_breakpoint": POINT}


def test_openai_takes_no_mark_on_tools_nor_on_what_the_assistant_said():
    body = after(WHOLE, OPENAI, (0, ""), (5, ""), (8, ""))

    assert body == orjson.loads(WHOLE.render())


def test_a_cache_without_marks_gets_none():
    for regime in (Regime(), Regime(name="openai-interval"), Regime(name="anthropic-breakpoint")):
        assert add_marks(WHOLE, [(spots(WHOLE)[1], "")], regime) is WHOLE


@pytest.mark.parametrize(
    "content",
    [None, "", " \n", [], [said(" ")], [{"type": "input_audio"}], [{"type": 7}], [3], [{}]],
)
def test_a_message_that_says_nothing_markable_stays_as_it_is(content: object):
    of = prompt(message("user", content))

    assert add_marks(of, [(spots(of)[0], "")], ANTHROPIC) == of


def test_the_last_part_that_says_something_carries_the_mark():
    body = after(prompt(message("user", [said("a"), said("")])), ANTHROPIC, (0, ""))

    assert body["messages"][0]["content"] == [said("a", cache_control=MARK), said("")]


def test_calls_that_are_no_objects_are_not_marked():
    for calls in ([1], "x", None):
        of = prompt(message("assistant", None, tool_calls=calls))
        assert add_marks(of, [(spots(of)[0], "")], ANTHROPIC) == of


def test_a_marked_part_keeps_its_other_fields_as_they_were_written():
    raw = b'{ "text" : "\\u00e9", "x":1.0e3 , "type": "text" }'
    of = parse_prompt(b'{"messages":[{"role":"user","content":[' + raw + b'], "n" : 1.50}]}')
    message = add_marks(of, [(spots(of)[0], "1h")], ANTHROPIC).messages[0]

    assert raw[:-1] + b',"cache_control":{"type":"ephemeral","ttl":"1h"}}' in message
    assert b'"n":1.50' in message


def test_a_null_mark_gives_way_to_a_planned_one():
    body = after(prompt(message("user", [said("a", cache_control=None)])), ANTHROPIC, (0, ""))

    assert body["messages"][0]["content"] == [said("a", cache_control=MARK)]


@pytest.mark.parametrize(
    "own",
    [
        prompt(message("user", [said("a", cache_control=HOUR)])),
        prompt(message("user", "a", cache_control=HOUR)),
        prompt(message("user", [said("a", prompt_cache_breakpoint={"ttl": "1h"})])),
        prompt(message("system", "a", cache_control=HOUR)),
        prompt(message("system", [said("a"), said("b")], cache_control=HOUR)),
        prompt(message("tool", [said("a", cache_control=HOUR)], tool_call_id="c")),
        prompt(message("assistant", None, tool_calls=[CALL | {"cache_control": HOUR}])),
        prompt(tools=[TOOL | {"cache_control": HOUR}]),
        prompt(tools=[{"type": "function", "function": {"name": "f", "cache_control": HOUR}}]),
    ],
)
def test_the_callers_own_mark_is_read_and_stays(own: Prompt):
    last = len(spots(own)) - 1

    assert caller_marks(own, spots(own)) == {last: "1h"}
    assert count_caller_marks(own, ANTHROPIC) == 1
    assert add_marks(own, [(spots(own)[last], "")], ANTHROPIC) == own


def test_a_mark_on_the_whole_body_stands_on_its_last_block_and_on_none_of_openais():
    own = prompt(message("system", "a"), message("user", "b"), cache_control=MARK)

    assert caller_marks(own, spots(own)) == {}
    assert route_marks({}, own, spots(own), ANTHROPIC) == {1: "5m"}
    assert route_marks({1: "1h"}, own, spots(own), HOURLY) == {1: "1h"}
    assert route_marks({}, own, spots(own), OPENAI) == {}
    assert route_marks({}, own, (), ANTHROPIC) == {}
    assert (count_caller_marks(own, ANTHROPIC), count_caller_marks(own, OPENAI)) == (1, 0)


def test_a_callers_marks_are_counted_one_by_one():
    two = [said("a", cache_control=MARK), said("b", cache_control=HOUR), said("c")]
    own = prompt(message("user", two), message("tool", two, tool_call_id="c"), message("user", "x"))

    assert caller_marks(own, spots(own)) == {0: "1h", 1: "1h"}
    assert count_caller_marks(own, ANTHROPIC) == 3
    assert count_caller_marks(own, OPENAI) == 4
    assert count_caller_marks(own, Regime(name="implicit")) == 0


def test_a_callers_marks_are_counted_as_the_wire_says_them():
    own = prompt(
        message("system", [said("a", cache_control=HOUR)]),
        message("assistant", [said("b", cache_control=MARK)]),
        message("user", [said("c", prompt_cache_breakpoint=POINT | {"ttl": "12h"})]),
        message("user", [said("d", prompt_cache_breakpoint=POINT)]),
        tools=[TOOL | {"cache_control": MARK}],
        cache_control=MARK,
    )
    at = spots(own)
    marks_of_caller = caller_marks(own, at)
    openai = msgspec.structs.replace(OPENAI, lifetimes={"30m": 1_800.0, "12h": 43_200.0})

    assert route_marks(marks_of_caller, own, at, HOURLY) == {
        0: "5m",
        1: "1h",
        2: "5m",
        3: "1h",
        4: "5m",
    }
    assert route_marks(marks_of_caller, own, at, openai) == {1: "30m", 3: "12h", 4: "30m"}
    assert route_marks(marks_of_caller, own, at, Regime(name="implicit")) == {}
    assert (count_caller_marks(own, ANTHROPIC), count_caller_marks(own, OPENAI)) == (6, 3)


@pytest.mark.parametrize("mark", [5, "x", [], {"ttl": 7}, {"ttl": None}, True])
def test_a_mark_that_makes_no_sense_is_still_the_callers(mark: object):
    own = prompt(message("user", [said("a", cache_control=mark)]))

    assert caller_marks(own, spots(own)) == {0: ""}


def test_words_that_look_like_a_mark_are_none():
    own = prompt(message("user", "cache_control"), tools=["cache_control", TOOL])

    assert caller_marks(own, spots(own)) == {}


def test_without_own_marks_removes_only_an_objects_own_marks():
    with pytest.raises(Unplannable):
        members(b"[]")
    assert without_own_marks(b"[]") == b"[]"
    assert without_own_marks(b'{"a":"cache_control"}') == b'{"a":"cache_control"}'
    assert without_own_marks(b'{"a": 1,"cache_control": {}}') == b'{"a":1}'


def messages_body(of: Prompt) -> dict[str, Any]:
    """The Messages body for this prompt."""
    body: dict[str, Any] = orjson.loads(
        WIRES["anthropic"]
        .request(call(of.render()), route(kind="anthropic", traits=frozenset({"forced_tools"})))
        .body
    )
    return body


def test_every_mark_for_anthropic_comes_through_the_wire_onto_one_block():
    for index, block in enumerate(spots(WHOLE)):
        body = messages_body(add_marks(WHOLE, [(block, "1h")], ANTHROPIC))
        carrying = [one for one in messages_rules.blocks(body) if "cache_control" in one]

        assert [one["cache_control"] for one in carrying] == [HOUR], index
        place = list(messages_rules.blocks(body)).index(carrying[0])
        assert place == [0, 1, 2, 3, 4, 6, 7, 8, 9, 11][index]


def test_marks_change_nothing_else_on_the_wire():
    every = [(block, "") for block in spots(WHOLE)[:4]]
    body = messages_body(add_marks(WHOLE, every, ANTHROPIC))
    for one in messages_rules.blocks(body):
        one.pop("cache_control", None)

    assert body == messages_body(WHOLE)


def test_the_lab_takes_what_is_marked_for_anthropic():
    model = MODELS["claude-haiku-4-5"]
    places = [(spots(WHOLE)[0], "1h"), (spots(WHOLE)[3], "1h"), (spots(WHOLE)[9], "5m")]
    body = messages_body(add_marks(WHOLE, places, ANTHROPIC))
    messages_rules.check(body, model)
    prompt_read = messages_bodies.messages_prompt(body, ReadingContext(Vocabulary(), model, "key"))

    assert [one.mark for one in prompt_read.blocks if one.mark] == ["1h", "1h", "5m"]


_PARTS = st.lists(
    st.one_of(
        st.builds(said, st.sampled_from(["a", "b c", "", "cache_control"])),
        st.builds(lambda mark: said("m", cache_control=mark), st.sampled_from([MARK, HOUR, None])),
        st.just(PICTURE),
        st.integers(0, 3),
    ),
    max_size=3,
)
_MESSAGES = st.builds(
    message,
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    st.one_of(st.none(), st.text("ab \n", max_size=5), _PARTS),
)


@examples(40, deadline=None)
@each(
    messages=st.lists(_MESSAGES, max_size=5),
    tools=st.lists(st.sampled_from([TOOL, TOOL | {"cache_control": MARK}, 7]), max_size=2),
    regime=st.sampled_from([ANTHROPIC, OPENAI]),
)
def test_marking_adds_one_mark_where_it_can_and_loses_nothing(
    messages: list[dict[str, Any]], tools: list[Any], regime: Regime
):
    of = prompt(*messages, tools=tools)
    for block in spots(of):
        with_marks = add_marks(of, [(block, "")], regime)
        assert_nothing_lost(of.render(), with_marks.render())
        assert count_caller_marks(with_marks, regime) == count_caller_marks(of, regime) + (
            with_marks != of
        )
        assert add_marks(with_marks, [(block, "")], regime) == with_marks


def test_openais_breakpoints_reach_the_labs_cache():
    model = MODELS["gpt-6.1-sol"]
    lab = ReadingContext(Vocabulary(), model, "key")
    places = [(spots(WHOLE)[3], ""), (spots(WHOLE)[7], "")]
    body = orjson.loads(
        add_cache_key(
            add_marks(WHOLE, places, OPENAI), BreakpointPolicy(explicit=True), OPENAI
        ).render()
    )
    body["model"] = "gpt-6.1-sol"
    prompt = chat_bodies.read_chat_request(body, lab).prompt

    assert [one.mark for one in prompt.blocks if one.mark] == ["30m", "30m"]
    assert prompt.explicit


def test_a_tool_whose_mark_stands_twice_cannot_be_marked():
    tool = b'{"cache_control":null,"cache_control":null,"type":"function"}'
    parsed = parse_prompt(b'{"messages":[],"tools":[' + tool + b"]}")

    with pytest.raises(Unplannable, match="stands twice"):
        add_marks(parsed, [(spots(parsed)[0], "")], ANTHROPIC)


def test_128_messages_of_up_to_64_kibibytes_are_remembered_with_their_marks():
    def with_mark(text: str) -> bytes:
        raw = orjson.dumps(message("system", [said(text)]))
        return _with_mark_after(raw, 0, _FORMS["anthropic-breakpoint"], b'{"type":"ephemeral"}')

    least = len(orjson.dumps(message("system", [said("")])))
    texts = ["a" * (size - least) for size in (65_536, 65_537)]
    assert remembers_latest(lambda number: with_mark(str(number)), 128)
    assert [with_mark(text) is with_mark(text) for text in texts] == [True, False]
