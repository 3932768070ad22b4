"""A body of the Messages API in chat's shape, with marks in place, and back."""

from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.message_cache import read_message
from proxy.prefix.prompts.marks import add_marks, caller_marks, count_caller_marks
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import (
    MessageReading,
    Prompt,
    PromptBlock,
    conversation_blocks,
    count_leading,
    leading_text_blocks,
    parse_prompt,
    tool_blocks,
)
from proxy.tools.simulator.apis.messages_rules import check
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.replies import signature
from tests.examples import examples

ANTHROPIC = Regime(
    name="anthropic-breakpoint",
    provider="anthropic",
    marks=4,
    writes={"5m": Fraction(5, 4), "1h": Fraction(2)},
)
MARK = {"type": "ephemeral"}
FIND = {"name": "find", "description": "Finds.", "input_schema": {"type": "object"}}
BASH = {"type": "bash_20250124", "name": "bash"}
USE = {"type": "tool_use", "id": "t1", "name": "find", "input": {"a": 1}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.")}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "8"}]}
SYSTEM = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "In Oslo."}]
TALK = [
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "I look."}, USE]},
    {"role": "user", "content": [RESULT, {"type": "text", "text": "And?"}]},
]
Json = dict[str, Any]


def native(**fields: Any) -> bytes:
    return orjson.dumps({"model": "claude", "max_tokens": 9, "messages": TALK, **fields})


def read(body: bytes) -> Prompt:
    return parse_prompt(body, is_native=True)


def blocks(prompt: Prompt) -> list[PromptBlock]:
    first = count_leading(prompt)
    spoken = [
        PromptBlock("user", block.slot, index, -1, 1, b"")
        for index, block in enumerate(
            conversation_blocks(prompt, [_message_reading(raw) for raw in prompt.messages], first),
            first,
        )
    ]
    tools = tool_blocks(prompt, lambda raw: raw[:8])
    return [*tools, *leading_text_blocks(prompt, lambda raw: raw[:8], first), *spoken]


def _message_reading(raw: bytes) -> MessageReading:
    return read_message(lambda piece: piece[:8], raw)


def mark_blocks(body: bytes, *places: int) -> Json:
    prompt = read(body)
    every = blocks(prompt)
    document: Json = orjson.loads(
        add_marks(prompt, [(every[place], "") for place in places], ANTHROPIC).render()
    )
    return document


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": "Be brief."},
        {"system": SYSTEM},
        {"system": None, "tools": None},
        {"tools": [FIND, BASH], "system": SYSTEM, "unknown": {"a": [1.5]}},
        {"messages": [*TALK, {"role": "system", "content": "New rules."}]},
        {"tools": [{**FIND, "cache_control": MARK}], "cache_control": MARK},
    ],
)
def test_a_body_is_written_back_byte_for_byte(fields: Json) -> None:
    body = native(**fields)

    assert read(body).render() == body


def test_the_system_prompt_leads_and_a_later_system_message_does_not() -> None:
    late = {"role": "system", "content": "New rules."}
    prompt = read(native(system=SYSTEM, messages=[*TALK[:1], late]))

    assert count_leading(prompt) == 1
    assert len(prompt.messages) == 3


def test_tools_take_marks_as_their_own_members() -> None:
    marked = mark_blocks(native(tools=[FIND, BASH], system=SYSTEM), 0, 1)

    assert marked["tools"] == [{**FIND, "cache_control": MARK}, {**BASH, "cache_control": MARK}]


def test_system_blocks_messages_calls_and_results_take_marks_in_place() -> None:
    marked = mark_blocks(native(system=SYSTEM), 0, 2, 3, 4)

    assert marked["system"][0] == {**SYSTEM[0], "cache_control": MARK}
    assert marked["messages"][0]["content"] == [
        {"type": "text", "text": "Where is it?", "cache_control": MARK}
    ]
    assert marked["messages"][1]["content"] == [
        THOUGHT,
        {"type": "text", "text": "I look."},
        {**USE, "cache_control": MARK},
    ]
    assert marked["messages"][2]["content"][1]["cache_control"] == MARK
    check(marked, SimulatedModel(wire="anthropic", traits=frozenset()))


def test_a_result_takes_the_mark_where_it_ends_the_message() -> None:
    talk = [*TALK[:2], {"role": "user", "content": [RESULT]}]

    assert mark_blocks(native(messages=talk), 2)["messages"][2]["content"] == [
        {**RESULT, "cache_control": MARK}
    ]


def test_thinking_is_never_marked_nor_changed() -> None:
    talk = [TALK[0], {"role": "assistant", "content": [THOUGHT]}]
    body = native(messages=talk)

    assert mark_blocks(body, 1) == orjson.loads(body)


def test_the_callers_marks_are_found_and_counted_also_within_results() -> None:
    within = {**RESULT, "content": [{"type": "text", "text": "8", "cache_control": MARK}] * 2}
    both = {**within, "cache_control": MARK}
    for result, count in ((within, 2), (both, 3), (RESULT, 0)):
        talk = [*TALK[:2], {"role": "user", "content": [result]}]
        prompt = read(native(messages=talk, system=[{**SYSTEM[0], "cache_control": MARK}]))

        assert count_caller_marks(prompt, ANTHROPIC) == count + 1
        assert sorted(caller_marks(prompt, blocks(prompt))) == ([0, 3] if count else [0])


@pytest.mark.parametrize(
    "body",
    [
        b'{"max_tokens":9}',
        b'{"messages":7}',
        native(system=7),
        native(system=""),
        native(system=[]),
        native(messages=[{"role": "system", "content": "First."}, *TALK]),
        native(tools=[{"type": "function", "function": {"name": "find"}}]),
        native(messages=[7]),
        b"[]",
    ],
)
def test_a_body_of_another_form_stays_unmodified(body: bytes) -> None:
    with pytest.raises(Unplannable):
        read(body)


_TEXT = st.text(max_size=20)
_PART = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _TEXT),
    st.just(THOUGHT),
    st.just(USE),
    st.builds(lambda text: {**RESULT, "content": text}, _TEXT),
)
_MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant"]),
        "content": st.one_of(_TEXT, st.lists(_PART, min_size=1, max_size=4)),
    }
)


@pytest.mark.slow
@examples(100)
@given(
    st.lists(_MESSAGE, min_size=1, max_size=5),
    st.one_of(st.none(), _TEXT.filter(bool), st.just(SYSTEM)),
    st.lists(st.sampled_from([FIND, BASH]), max_size=3),
    st.data(),
)
def test_marks_change_nothing_but_where_they_stand(
    talk: list[Json], system: Any, tools: list[Json], data: st.DataObject
) -> None:
    body = native(messages=talk, tools=tools, **({} if system is None else {"system": system}))
    every = blocks(read(body))
    places = data.draw(st.lists(st.sampled_from(range(len(every))), max_size=4, unique=True))

    assert _bare(mark_blocks(body, *places)) == _bare(orjson.loads(body))


def _bare(marked: Any) -> Any:
    """JSON without marks, a lone text part as its text."""
    if isinstance(marked, list):
        return [_bare(item) for item in marked]
    if not isinstance(marked, dict):
        return marked
    fields = {name: _bare(value) for name, value in marked.items() if name != "cache_control"}
    for name in ("content", "system"):
        part = fields.get(name)
        if isinstance(part, str):
            fields[name] = [{"type": "text", "text": part}]
    return fields


def test_a_part_of_a_thread_that_its_provider_keeps_is_not_planned():
    fields = {"messages": [{"role": "user", "content": "Hi."}], "thread": {"type": "create"}}

    with pytest.raises(Unplannable, match="keeps the conversation"):
        parse_prompt(orjson.dumps(fields), is_native=True)
    assert parse_prompt(orjson.dumps(fields | {"thread": None}), is_native=True)
