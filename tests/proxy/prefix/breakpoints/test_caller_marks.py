"""Room beside the caller's own marks, and the one that OpenAI's cache makes needless."""

from typing import Any

import msgspec
import orjson
import pytest

from proxy.prefix.breakpoints.caller_marks import (
    free_marks,
    free_splits,
    marks_left,
    without_spare_mark,
)
from proxy.prefix.prompts.marks import caller_marks, route_marks
from proxy.prefix.prompts.prompt import Prompt, PromptBlock, PromptSlot, parse_prompt
from tests.proxy.prefix.sent_calls import ANTHROPIC, OPENAI, blocks

Json = dict[str, Any]

HINT = {"cache_control": {"type": "ephemeral"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ASKED = {"role": "user", "content": "Well?"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def part(text: str, **fields: Any) -> Json:
    return {"type": "text", "text": text, **fields}


def agent_prompt(*spoken: Json) -> Prompt:
    """A prompt with two marks in its instructions and these messages."""
    rules = [part("You are an agent.", **HINT), part("Be kind.", **HINT)]
    messages = [{"role": "system", "content": rules}, *spoken]
    return parse_prompt(orjson.dumps({"model": "m", "messages": messages}))


def spare(prompt: Prompt, regime: Any = OPENAI, lifetime: str = "") -> tuple[Prompt, list[int]]:
    """The prompt without what is spare, and the blocks that its caller marks still."""
    every = blocks(prompt, lambda raw: raw)
    given = route_marks(caller_marks(prompt, every), prompt, every, regime)
    removed, left = without_spare_mark(prompt, every, given, regime, lifetime)
    left_marks = caller_marks(removed, blocks(removed, lambda raw: raw))
    assert left == route_marks(left_marks, removed, every, regime)
    return removed, sorted(left)


def last_message(prompt: Prompt) -> Json:
    message: Json = orjson.loads(prompt.messages[-1])
    return message


@pytest.mark.parametrize(
    ("ending", "left"),
    [
        (
            {"role": "user", "content": [part("Here."), part("Well?", **HINT)]},
            {"role": "user", "content": [part("Here."), part("Well?")]},
        ),
        ({**ASKED, **HINT}, ASKED),
    ],
)
def test_a_hint_at_the_end_that_openai_writes_is_left_out(ending: Json, left: Json) -> None:
    removed, marked = spare(agent_prompt(ending))

    assert marked == [0, 1]
    assert last_message(removed) == left


def test_a_hint_on_the_last_result_of_a_tool_is_left_out() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "The cache_control.", **HINT}
    removed, marked = spare(agent_prompt(ASKED, CALLED, result))

    assert marked == [0, 1]
    assert last_message(removed) == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "The cache_control.",
    }


@pytest.mark.parametrize(
    "spoken",
    [
        [{**ASKED, **HINT}, CALLED, {"role": "tool", "tool_call_id": "c1", "content": "Done."}],
        [{"role": "user", "content": [part("Here.", **HINT), part("Well?")]}],
        [{"role": "user", "content": [part("Here.", **HINT), part("Well?", **HINT)]}],
        [{"role": "user", "content": [part("Well?", **BREAKPOINT)]}],
        [{"role": "user", "content": [part("Well?", **HINT, **BREAKPOINT)]}],
    ],
)
def test_any_other_mark_of_the_callers_stays(spoken: list[Json]) -> None:
    prompt = agent_prompt(*spoken)
    removed, marked = spare(prompt)

    assert removed is prompt
    assert len(marked) == 3


def test_a_hint_stays_where_others_have_room() -> None:
    prompt = parse_prompt(orjson.dumps({"model": "m", "messages": [{**ASKED, **HINT}]}))

    assert spare(prompt) == (prompt, [0])


def test_a_hint_stays_where_the_provider_would_write_the_end_for_longer() -> None:
    prompt = agent_prompt({**ASKED, **HINT})

    assert spare(prompt, lifetime="12h")[0] is prompt


def test_a_hint_stays_where_less_room_spares_a_mark_that_lives_longer() -> None:
    """OpenAI writes three marks; one before them would be written, too, at twice the price."""
    long = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
    first = {"role": "system", "content": [part("Long.", **long)]}
    prompt = agent_prompt({**ASKED, **HINT})
    prompt = msgspec.structs.replace(prompt, messages=(orjson.dumps(first), *prompt.messages))

    assert spare(prompt) == (prompt, [0, 1, 2, 3])


def test_a_hint_makes_room_for_a_mark_of_the_callers_own_that_lives_as_long() -> None:
    first = {"role": "system", "content": [part("First.", **HINT)]}
    prompt = agent_prompt({**ASKED, **HINT})
    prompt = msgspec.structs.replace(prompt, messages=(orjson.dumps(first), *prompt.messages))

    assert spare(prompt)[1] == [0, 1, 2]


def test_a_callers_marks_for_anthropic_stay_on_its_cache() -> None:
    prompt = agent_prompt({**ASKED, **HINT})

    assert spare(prompt, ANTHROPIC) == (prompt, [0, 1, 2])


def test_openai_writes_three_marks_beside_its_own_choice() -> None:
    assert free_marks(OPENAI, {}, explicit=False) == 4
    assert free_marks(OPENAI, {0: "30m"}, explicit=False) == 2
    assert free_marks(OPENAI, {0: "30m"}, explicit=True) == 3
    assert free_marks(ANTHROPIC, {0: "5m"}, explicit=False) == 3


def test_marks_that_share_a_block_take_room_of_their_own() -> None:
    twice = [part("Here.", **HINT), part("Well?", **HINT)]
    prompt = agent_prompt({"role": "user", "content": twice})
    every = blocks(prompt, lambda raw: raw)
    given = caller_marks(prompt, every)

    assert len(given) == 3
    assert marks_left(prompt, given, OPENAI).marks == OPENAI.marks - 1
    assert marks_left(prompt, {}, OPENAI) is OPENAI


@pytest.mark.parametrize(
    ("marks", "splits"),
    [
        ({}, {}),
        ({1: "5m"}, {}),
        ({4: "5m"}, {2: "5m", 3: "5m"}),
        ({5: "5m"}, {3: "5m", 4: "5m"}),
        ({3: "1h", 4: "5m"}, {2: "1h"}),
        ({0: "1h", 1: "1h", 4: "1h"}, {3: "1h"}),
        ({0: "1h", 1: "1h", 3: "1h", 4: "1h"}, {}),
    ],
)
def test_parts_of_a_user_message_are_marked_only_before_a_mark_as_long_lived(
    marks: dict[int, str], splits: dict[int, str]
) -> None:
    two_rules = [PromptBlock("system", PromptSlot.STABLE, 0, index, 500, b"") for index in range(2)]
    parts = [PromptBlock("user", PromptSlot.VARIABLE, 1, index, 500, b"") for index in range(4)]

    assert free_splits([*two_rules, *parts], ANTHROPIC, marks) == splits
