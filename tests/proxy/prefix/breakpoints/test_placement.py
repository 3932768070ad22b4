from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.placement import (
    MarkPlacement,
    dearest_fee,
    extra_place_values,
    place_marks,
)
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prompts.prompt import PromptBlock, PromptSlot
from slo.usage import Usage
from tests.proxy.prefix.sent_calls import ANTHROPIC, OPENAI, users

ALL = BreakpointPolicy(ttl="5m", places=4)
#: t tool, s stable system text, m semi-stable, u user, a assistant, r tool result.
ROLES = {"t": "tools", "s": "system", "m": "system", "u": "user", "a": "assistant", "r": "tool"}
SLOTS = {"t": PromptSlot.STABLE, "s": PromptSlot.STABLE, "m": PromptSlot.SEMI_STABLE}


def blocks_of(drawn: str, size: int = 500) -> list[PromptBlock]:
    blocks = []
    for index, letter in enumerate(drawn):
        message = -1 if letter == "t" else index - drawn.count("t")
        slot = SLOTS.get(letter, PromptSlot.VARIABLE)
        blocks.append(PromptBlock(ROLES[letter], slot, message, -1, size, b""))
    return blocks


def stand(
    drawn: str,
    policy: BreakpointPolicy = ALL,
    regime: Regime = ANTHROPIC,
    given: dict[int, str] | None = None,
    tail: int = 0,
    block_tokens: int = 2_000,
) -> MarkPlacement:
    blocks = blocks_of(drawn)
    ends = [block_tokens * (index + 1) for index in range(len(blocks))]
    return place_marks(policy, blocks, ends, regime, given or {}, tail)


def places(placement: MarkPlacement) -> list[tuple[int, str]]:
    return list(placement.marks.items())


BACK = BreakpointPolicy(ttl="5m", places=4, back=1)
STABLE = BreakpointPolicy(ttl="5m", places=2)
TOOLS = BreakpointPolicy(ttl="5m", places=1)
NO_ROOM = "no mark after the {} slot: all 4 marks are in use"
Case = tuple[str, dict[str, Any], dict[int, str], tuple[str, ...]]
#: Blocks, what else there is, and the marks; the beginnings of the notes on those left out.
CASES: dict[str, Case] = {
    "tools, slots and conversation end in a mark": (
        "ttsmuau", {}, {1: "5m", 2: "5m", 3: "5m", 6: "5m"}, (),
    ),
    "the turn before the answer does where a place is free": (
        "smuau", {}, {0: "5m", 1: "5m", 2: "5m", 4: "5m"}, (),
    ),
    "variable text has none": (
        "ttsmuauu", {"tail": 1}, {1: "5m", 2: "5m", 3: "5m", 6: "5m"}, (),
    ),
    "a call that is variable has none": ("u", {"tail": 1}, {}, ()),
    "an empty prompt has none": ("", {}, {}, ()),
    "an empty prompt with a tail has none": ("", {"tail": 1}, {}, ()),
    "a tail of everything leaves nothing": ("uu", {"tail": 5}, {}, ()),
    "a policy without marks has none": ("ttsmuau", {"policy": BreakpointPolicy()}, {}, ()),
    "an answer that the caller began": ("tsua", {}, {0: "5m", 1: "5m", 2: "5m"}, ()),
    "no tool at OpenAI": (
        "ttu", {"policy": BreakpointPolicy(ttl="30m", places=3), "regime": OPENAI}, {}, (),
    ),
    "three marks beside OpenAI's own choice": (
        "smuau",
        {
            "policy": BreakpointPolicy(ttl="30m", places=3),
            "regime": OPENAI,
            "given": {2: "30m", 4: "30m"},
        },
        {0: "30m"},
        (NO_ROOM.format("semi-stable"),),
    ),
    "a place that is too short": ("tsu", {"block_tokens": 350}, {2: "5m"}, ()),
    "an estimate that is nearly enough": ("tsu", {"block_tokens": 370}, {1: "5m", 2: "5m"}, ()),
    "no room for a place": (
        "ttsuau", {"given": {0: "1h", 1: "1h", 3: "5m"}}, {5: "5m"}, (NO_ROOM.format("stable"),),
    ),
    "the end of the conversation comes first": (
        "ttsmuau",
        {"given": {0: "1h", 1: "1h", 4: "5m"}},
        {6: "5m"},
        (NO_ROOM.format("stable"), NO_ROOM.format("semi-stable")),
    ),
    "the caller's mark stands there": (
        "ttsmuau", {"given": {6: "5m"}}, {1: "5m", 2: "5m", 3: "5m"}, (),
    ),
    "behind a shorter mark of the caller's": (
        "ttsu", {"policy": BreakpointPolicy(ttl="1h", places=2), "given": {1: "5m"}}, {2: "5m"}, (),
    ),
    "before a longer mark of the caller's": (
        "ttsu", {"policy": STABLE, "given": {3: "1h"}}, {1: "1h", 2: "1h"}, (),
    ),
    "behind a longer mark of the caller's": (
        "ttsmu", {"given": {3: "1h"}}, {1: "1h", 2: "1h", 4: "5m"}, (),
    ),
    "between marks in the wrong order": (
        "ttsu", {"policy": STABLE, "given": {1: "5m", 3: "1h"}}, {}, (),
    ),
    "tools are marked at the last of them": ("ttsu", {"policy": TOOLS}, {1: "5m"}, ()),
    "tools that are gone": ("su", {"policy": TOOLS}, {}, ()),
    "a block that later calls leave out": (
        "suauu", {"policy": BACK}, {0: "5m", 1: "5m", 3: "5m"}, (),
    ),
    "an answer before a block that later calls leave out": (
        "suau", {"policy": BACK}, {0: "5m", 1: "5m"}, (),
    ),
    "a conversation that later calls leave out": (
        "tsu", {"policy": BACK}, {0: "5m", 1: "5m"}, (),
    ),
    "more blocks left out than there are": (
        "tsu", {"policy": msgspec.structs.replace(BACK, back=12)}, {0: "5m", 1: "5m"}, (),
    ),
    "a mark before one of the caller's costs nothing": (
        "tsmu", {"policy": BreakpointPolicy(), "given": {3: "5m"}}, {1: "5m"}, (),
    ),
    "a free mark lives as long as the caller's": (
        "tsmu", {"policy": BreakpointPolicy(), "given": {2: "1h", 3: "1h"}}, {1: "1h"}, (),
    ),
    "none is free where nothing behind is marked": (
        "tsmu", {"policy": BreakpointPolicy(), "given": {0: "5m"}}, {}, (),
    ),
    "none is free where the caller's stands": (
        "tsmu", {"policy": BreakpointPolicy(), "given": {1: "5m", 3: "5m"}}, {}, (),
    ),
    "none is free where all are in use": (
        "tsmuuu",
        {"policy": BreakpointPolicy(), "given": dict.fromkeys(range(2, 6), "5m")},
        {},
        (),
    ),
    "none is free where nothing is stable": (
        "mu", {"policy": BreakpointPolicy(), "given": {1: "5m"}}, {}, (),
    ),
    "none is free on OpenAI, where it may displace another": (
        "tsmu", {"policy": BreakpointPolicy(), "regime": OPENAI, "given": {3: "30m"}}, {}, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("drawn", "fields", "marks", "notes"), CASES.values(), ids=CASES)
def test_marks_stand_where_they_pay_and_fit(drawn, fields, marks, notes):
    placement = stand(drawn, **fields)

    assert places(placement) == list(marks.items())
    assert len(placement.notes) == len(notes)
    assert all(map(str.startswith, placement.notes, notes))


@pytest.mark.parametrize(("size", "block"), [(2, 0), (3, 1)])
def test_a_text_without_words_is_not_marked_and_one_of_a_letter_is(size: int, block: int):
    blocks = [*blocks_of("s"), *blocks_of("s", size=size), *blocks_of("u")]
    placement = place_marks(STABLE, blocks, [2_000, 2_001, 3_000], ANTHROPIC, {})

    assert places(placement) == [(block, "5m")]


class PlacementInput(msgspec.Struct, frozen=True):
    """A prompt, its caller's own marks, and what a policy asks for."""

    drawn: str
    policy: BreakpointPolicy
    own: dict[int, str]
    tail: int
    block_tokens: int


@st.composite
def prompts(draw: st.DrawFn) -> PlacementInput:
    slots = (("t", 2), ("s", 2), ("m", 2), ("uar", 40))
    drawn = "".join(draw(st.text(letters, max_size=most)) for letters, most in slots)
    sold = st.sampled_from(["5m", "1h"])
    policy = draw(st.builds(BreakpointPolicy, ttl=sold, places=st.integers(0, 4)))
    own = draw(st.dictionaries(st.integers(0, 45), sold, max_size=5))
    return PlacementInput(
        drawn=drawn,
        policy=policy,
        own={at: ttl for at, ttl in own.items() if at < len(drawn)},
        tail=draw(st.integers(0, 3)),
        block_tokens=draw(st.integers(1, 2_000)),
    )


@pytest.mark.slow
@given(prompts())
def test_marks_are_never_too_many_too_early_or_out_of_order(prompt):
    own, block_tokens = prompt.own, prompt.block_tokens

    placement = stand(prompt.drawn, prompt.policy, ANTHROPIC, own, prompt.tail, block_tokens)

    spans = [ANTHROPIC.lifetimes[ttl] for ttl in placement.marks.values()]
    blocks = list(placement.marks)
    assert len(placement.marks) + len(own) <= max(4, len(own))
    assert blocks == sorted(set(blocks))
    assert spans == sorted(spans, reverse=True)
    assert all((at + 1) * block_tokens * 1.4 >= 1_024 and at not in own for at in blocks)
    assert all(prompt.drawn[at] != "a" for at in blocks)
    assert all(in_order(at, ANTHROPIC.lifetimes[ttl], own) for at, ttl in placement.marks.items())


def in_order(block: int, lives: float, own: dict[int, str]) -> bool:
    span = ANTHROPIC.lifetimes
    return all(span[ttl] >= lives if at < block else span[ttl] <= lives for at, ttl in own.items())


@pytest.mark.parametrize(
    ("marks", "fee"), [({}, 0.25), ({0: "5m"}, 0.25), ({0: "1h", 1: "5m"}, 1.0)]
)
def test_dearest_fee_is_that_of_the_longest_lifetime_marked(marks, fee):
    call = users(ANTHROPIC, ("a", 100), ("b", 100))

    assert dearest_fee(msgspec.structs.replace(call, marks=marks)) == pytest.approx(fee)


def test_extra_values_of_marks_that_read_what_the_unmodified_call_reads_are_nothing():
    call, usage = users(ANTHROPIC, ("a", 40_000)), Usage(input=100, cache_read=9_900)
    values = extra_place_values(call, call.scale(), usage, usage, 3.0)

    assert set(values.gains) == set(values.fees) == {0.0}
