"""Tests of what can be read where whole units alone are kept."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.caches.prefix_unit import PrefixUnitRules, PrefixUnits
from proxy.tools.replay.prompt_units import PromptUnits
from proxy.tools.replay.upper_bound import UpperBoundCache

Tokens = tuple[int, ...]

RULES, TIME, NOON = tuple(range(500)), tuple(range(600, 609)), tuple(range(700, 709))
TURN = 96
PRIMING = (1, 2, 3)
ANSWER = tuple(range(800, 845))


def prompt(heads: list[Tokens], turns: int, answer: Tokens = ()) -> CachedPrompt:
    """Lines of instructions, so many turns, and what primes the answer; or an answer to go on."""
    lines = [TokenBlock(role="system", tokens=head, message=0) for head in heads]
    spoken = [
        TokenBlock(
            role="user", tokens=tuple(range(number * 1000, number * 1000 + TURN)), message=number
        )
        for number in range(1, turns + 1)
    ]
    if answer:
        spoken.append(TokenBlock(role="assistant", tokens=(*PRIMING, *answer), message=turns + 1))
    last = TokenBlock(role="assistant", tokens=PRIMING, message=turns + 2)
    return CachedPrompt(blocks=(*lines, *spoken, last))


def reach(*calls: tuple[list[Tokens], int], room: int = 400_000) -> UpperBoundCache:
    """One that was asked these lines with so many turns, ten seconds apart."""
    found = UpperBoundCache(PromptUnits(frozenset()), build=2.0, room=room)
    for number, (heads, turns) in enumerate(calls):
        found.begin_answer(prompt(heads, turns), 10.0 * number)
    return found


def read(found: UpperBoundCache, heads: list[Tokens], turns: int, now: float = 400.0) -> int:
    return found.serve(prompt(heads, turns), now).read


def test_read_and_fresh_tokens_add_up_to_the_prompt():
    served = reach(([RULES], 3)).serve(prompt([RULES], 5), 400.0)

    assert served.read + served.fresh == prompt([RULES], 5).tokens


def test_a_call_that_goes_on_from_an_earlier_one_reads_all_of_that():
    assert read(reach(([RULES], 3)), [RULES], 5) == 500 + 3 * TURN


def test_where_something_varied_what_a_single_call_asked_is_not_read():
    assert read(reach(([TIME, RULES], 3)), [NOON, RULES], 5) == 0


def test_where_something_varied_what_two_calls_asked_is_read():
    other = tuple(range(650, 659))

    found = reach(([TIME, RULES], 3), ([other, RULES], 5))

    assert read(found, [NOON, RULES], 7) == 500 + 3 * TURN


def test_units_that_no_single_call_sent_are_not_read():
    found = reach(([TIME], 1), ([TIME], 1), ([RULES], 2), ([RULES], 2))

    assert read(found, [TIME, RULES], 0) == 500


def test_tools_in_another_order_are_the_same():
    tool = tuple(range(50_000, 50_050))

    assert read(reach(([tool, RULES], 3)), [RULES, tool], 4) == 550 + 3 * TURN


@pytest.mark.parametrize(("now", "is_read"), [(1.9, False), (2.0, True)])
def test_a_unit_takes_its_time_to_be_built(now, is_read):
    assert read(reach(([RULES], 3)), [RULES], 5, now) == (500 + 3 * TURN) * is_read


def test_units_of_two_calls_have_the_time_of_the_second():
    found = reach(([TIME, RULES], 1), ([TIME, RULES], 3))
    early, late = (read(found, [NOON, RULES], 5, now) for now in (11.9, 12.0))

    assert (early, late) == (0, 500 + TURN)


def test_a_line_that_stands_twice_in_one_call_was_asked_once():
    assert read(reach(([TIME, RULES, RULES], 3)), [NOON, RULES], 5) == 0


def test_an_answer_is_read_by_the_call_that_goes_on_from_it_once_it_is_built():
    found = UpperBoundCache(PromptUnits(frozenset()), build=2.0)
    found.begin_answer(prompt([RULES], 3), 0.0)
    found.finish_answer(prompt([RULES], 3), ANSWER, 10.0)
    after = prompt([RULES], 3, ANSWER)
    reads = [found.serve(after, now).read for now in (11.9, 12.0)]

    asked = 500 + 3 * TURN
    assert reads == [asked, asked + len(PRIMING) + len(ANSWER)]


def test_where_something_varied_an_answer_is_read_once_two_calls_went_on_from_it():
    found = UpperBoundCache(PromptUnits(frozenset()), build=2.0)
    reads = []
    for number in range(4):
        time = tuple(range(60_000 + number * 10, 60_009 + number * 10))
        said = prompt([time, RULES], 1, ANSWER if number else ())
        reads.append(found.serve(said, 10.0 * number).read)
        found.begin_answer(said, 10.0 * number)
        found.finish_answer(said, ANSWER, 10.0 * number + 1)

    assert reads == [0, 0, 500 + TURN, prompt([RULES], 1, ANSWER).tokens]


def test_an_answer_of_nothing_is_nothing():
    found = reach(([TIME, RULES], 1))
    found.finish_answer(prompt([TIME, RULES], 1), (), 1.0)

    assert read(found, [NOON, RULES], 1) == 0


LINES = [tuple(range(10_000 + 100 * number, 10_064 + 100 * number)) for number in range(4)]
CALLS = st.tuples(
    st.lists(st.sampled_from(LINES), unique=True, max_size=3),
    st.integers(0, 3),
    st.booleans(),
    st.floats(0.5, 5.0),
)


@given(st.lists(CALLS, max_size=20))
def test_no_cache_of_units_reads_more_than_a_step_beyond_it(calls):
    rules = PrefixUnitRules(step=16, build=2.0)
    units, found = PrefixUnits(rules), UpperBoundCache(PromptUnits(frozenset()), build=rules.build)
    times = accumulate(gap for *_, gap in calls)

    for (heads, turns, goes_on, _), now in zip(calls, times, strict=True):
        said = prompt(heads, turns, ANSWER if goes_on else ())
        assert units.serve(said, now).read <= found.serve(said, now).read + rules.step
        for cache in (units, found):
            cache.begin_answer(said, now + 0.1)
            cache.finish_answer(said, ANSWER, now + 0.4)


def test_openings_that_are_not_kept_any_more_count_as_any():
    calls = [([tuple(range(900 + number * 3, 903 + number * 3)), RULES], 3) for number in range(20)]
    asked = 500 + 3 * TURN

    assert read(reach(*calls, ([RULES], 3)), [NOON, RULES], 4) == asked
    assert read(reach(*calls[:3]), [NOON, RULES], 4) == asked
    assert read(reach(calls[0]), [NOON, RULES], 4) == 0


def test_ends_are_forgotten_beyond_the_room_for_them():
    one = ([RULES], 1)

    assert read(reach(one, room=4), [RULES], 2) == 500 + TURN
    assert read(reach(one, room=0), [RULES], 2) == 0
