import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.breakpoints.placement import MarkPlacement, PromptEnd, place_marks
from proxy.prefix.breakpoints.plan import BreakpointPolicy
from proxy.prefix.prompts.prompt import PromptBlock, PromptSlot
from tests.proxy.prefix.sent_calls import ANTHROPIC, OPENAI

ALL = BreakpointPolicy(stable="1h", semi="5m", history="5m")
#: t tool, s stable system text, m semi-stable, u user, a assistant, r tool result.
ROLES = {"t": "tools", "s": "system", "m": "system", "u": "user", "a": "assistant", "r": "tool"}
SLOTS = {"t": PromptSlot.STABLE, "s": PromptSlot.STABLE, "m": PromptSlot.SEMI_STABLE}


def blocks_of(drawn: str, size: int = 500) -> list[PromptBlock]:
    found = []
    for at, letter in enumerate(drawn):
        message = -1 if letter == "t" else at - drawn.count("t")
        slot = SLOTS.get(letter, PromptSlot.VARIABLE)
        found.append(PromptBlock(ROLES[letter], slot, message, -1, size, b""))
    return found


def stand(
    drawn: str,
    policy: BreakpointPolicy = ALL,
    regime: Regime = ANTHROPIC,
    given: dict[int, str] | None = None,
    tail: int = 0,
    each: int = 2_000,
    spoken: int = 0,
) -> MarkPlacement:
    blocks = blocks_of(drawn)
    ends = [each * (at + 1) for at in range(len(blocks))]
    return place_marks(policy, blocks, ends, regime, given or {}, PromptEnd(tail, spoken))


def places(found: MarkPlacement) -> list[tuple[int, str]]:
    return list(found.marks.items())


def test_marks_end_the_slots_and_the_conversation():
    assert places(stand("ttsmuau")) == [(2, "1h"), (3, "5m"), (6, "5m")]


def test_variable_text_is_never_marked():
    assert places(stand("ttsmuauu", tail=1)) == [(2, "1h"), (3, "5m"), (6, "5m")]
    assert places(stand("u", tail=1)) == []


def test_slots_that_the_policy_leaves_out_get_no_mark():
    assert stand("ttsmuau", BreakpointPolicy()) == MarkPlacement()


def test_after_many_new_messages_the_end_of_the_previous_call_is_marked_too():
    few, many = "tsu" + "a" + "r" * 10, "tsu" + "a" + "r" * 30

    assert [at for at, _ in places(stand(few))] == [1, 13]
    assert [at for at, _ in places(stand(many))] == [1, 2, 33]


def test_the_previous_call_ended_before_all_of_its_answer():
    assert [at for at, _ in places(stand("tsuaa" + "r" * 20))] == [1, 2, 24]


def test_an_answer_begun_by_the_caller_is_not_marked():
    assert places(stand("tsua", BreakpointPolicy(history="5m"))) == [(2, "5m")]


def test_in_explicit_mode_only_marks_that_are_repeated_are_read_so_they_are():
    found = stand("suau", BreakpointPolicy(history="30m", explicit=True), OPENAI)

    assert places(found) == [(1, "30m"), (3, "30m")]


def test_a_mark_stands_on_no_tool_at_openai():
    found = stand("ttu", BreakpointPolicy(stable="30m"), OPENAI)

    assert places(found) == []
    assert found.notes == ()


def test_a_text_without_words_is_not_marked():
    blocks = [*blocks_of("s"), *blocks_of("s", size=2), *blocks_of("u")]
    found = place_marks(BreakpointPolicy(stable="5m"), blocks, [2_000, 2_001, 3_000], ANTHROPIC, {})

    assert places(found) == [(0, "5m")]


@pytest.mark.parametrize(
    ("drawn", "each", "tail", "place"),
    [
        ("ttsuau", 2_000, 0, [(0, "5m")]),
        ("ttsuau", 500, 0, [(2, "5m")]),
        ("suauau", 400, 0, [(3, "5m")]),
        ("suauau", 200, 0, []),
        ("suau", 400, 1, []),
    ],
    ids=["a tool", "system text", "the conversation", "too short", "what varies"],
)
def test_the_shortest_prefix_that_is_surely_cached_can_be_marked(drawn, each, tail, place):
    found = stand(drawn, BreakpointPolicy(first="5m"), each=each, tail=tail)

    assert places(found) == place


def test_a_place_that_is_too_short_to_be_cached_is_not_marked_and_needs_no_note():
    found = stand("tsu", each=350)

    assert places(found) == [(2, "5m")]
    assert found.notes == ()


def test_an_estimate_that_is_nearly_enough_is_marked():
    assert places(stand("tsu", each=370)) == [(1, "1h"), (2, "5m")]


def test_an_answer_that_is_gone_on_with_is_marked_where_it_takes_a_mark():
    assert places(stand("tsua", spoken=1)) == [(1, "1h"), (3, "5m")]
    assert places(stand("tsuau", tail=1, spoken=1)) == [(1, "1h"), (3, "5m")]


def test_of_two_answers_in_a_row_both_are_marked():
    assert places(stand("tsuaa", spoken=2)) == [(1, "1h"), (3, "5m"), (4, "5m")]


def test_a_place_for_which_there_was_no_room_is_noted_only_where_a_mark_could_stand():
    found = stand("ttsuau", given={0: "1h", 1: "1h", 3: "5m"})

    assert places(found) == [(5, "5m")]
    assert found.notes == ("no mark after the stable slot: all 4 marks are in use",)


def test_the_callers_own_marks_use_up_the_room_and_the_end_of_the_conversation_comes_first():
    found = stand("ttsmuau", given={0: "1h", 1: "1h", 4: "5m"})

    assert places(found) == [(6, "5m")]
    assert found.notes == (
        "no mark after the stable slot: all 4 marks are in use",
        "no mark after the semi-stable slot: all 4 marks are in use",
    )


def test_three_marks_are_written_beside_openais_own_choice():
    found = stand(
        "smuau", BreakpointPolicy(stable="30m", semi="30m"), OPENAI, given={2: "30m", 4: "30m"}
    )

    assert [at for at, _ in places(found)] == [0]


def test_where_the_callers_mark_stands_none_is_added():
    found = stand("ttsmuau", given={6: "5m"})

    assert [at for at, _ in places(found)] == [2, 3]
    assert found.notes == ()


def test_behind_a_shorter_mark_of_the_callers_ours_is_as_short():
    assert places(stand("ttsu", BreakpointPolicy(stable="1h"), given={1: "5m"})) == [(2, "5m")]


def test_before_a_longer_mark_of_the_callers_ours_is_as_long():
    assert places(stand("ttsu", BreakpointPolicy(stable="5m"), given={3: "1h"})) == [(2, "1h")]


def test_between_marks_in_the_wrong_order_none_fits():
    found = stand("ttsu", BreakpointPolicy(stable="5m"), given={1: "5m", 3: "1h"})

    assert places(found) == []
    assert "no lifetime" in found.notes[0]


def test_an_earlier_mark_of_ours_lives_as_long_as_a_later_one():
    assert places(stand("tsu", BreakpointPolicy(stable="5m", history="1h"))) == [
        (1, "1h"),
        (2, "1h"),
    ]


def test_a_lifetime_openai_does_not_sell_is_not_asked_for():
    found = stand("su", BreakpointPolicy(stable="5m"), OPENAI)

    assert places(found) == []
    assert "no lifetime" in found.notes[0]


def test_an_empty_prompt_has_no_marks():
    assert stand("").marks == {}
    assert stand("", tail=1).marks == {}


def test_a_tail_of_everything_leaves_nothing_to_mark():
    assert stand("uu", BreakpointPolicy(history="5m"), tail=5).marks == {}


TTL = st.sampled_from(["", "5m", "1h"])


class PlacementInput(msgspec.Struct, frozen=True):
    """A prompt, its caller's own marks, and what a policy asks for."""

    drawn: str
    policy: BreakpointPolicy
    own: dict[int, str]
    tail: int
    each: int


@st.composite
def prompts(draw: st.DrawFn) -> PlacementInput:
    slots = (("t", 2), ("s", 2), ("m", 2), ("uar", 40))
    drawn = "".join(draw(st.text(letters, max_size=most)) for letters, most in slots)
    policy = draw(st.builds(BreakpointPolicy, stable=TTL, semi=TTL, history=TTL))
    sold = st.sampled_from(["5m", "1h"])
    own = draw(st.dictionaries(st.integers(0, 45), sold, max_size=5))
    return PlacementInput(
        drawn=drawn,
        policy=policy,
        own={at: ttl for at, ttl in own.items() if at < len(drawn)},
        tail=draw(st.integers(0, 3)),
        each=draw(st.integers(1, 2_000)),
    )


@pytest.mark.slow
@given(prompts())
def test_marks_are_never_too_many_too_early_or_out_of_order(prompt):
    own, each = prompt.own, prompt.each

    found = stand(prompt.drawn, prompt.policy, ANTHROPIC, own, prompt.tail, each)

    spans = [ANTHROPIC.lifetimes[ttl] for ttl in found.marks.values()]
    blocks = list(found.marks)
    assert len(found.marks) + len(own) <= max(4, len(own))
    assert blocks == sorted(set(blocks))
    assert spans == sorted(spans, reverse=True)
    assert all((at + 1) * each * 1.4 >= 1_024 and at not in own for at in blocks)
    assert all(prompt.drawn[at] != "a" for at in blocks)
    assert all(in_order(at, ANTHROPIC.lifetimes[ttl], own) for at, ttl in found.marks.items())


def in_order(block: int, lives: float, own: dict[int, str]) -> bool:
    span = ANTHROPIC.lifetimes
    return all(span[ttl] >= lives if at < block else span[ttl] <= lives for at, ttl in own.items())


def test_tools_are_marked_at_the_last_of_them():
    assert places(stand("ttsu", BreakpointPolicy(tools="5m"))) == [(1, "5m")]
    assert places(stand("ttsu", BreakpointPolicy(tools="5m", stable="1h"))) == [
        (1, "1h"),
        (2, "1h"),
    ]


def test_tools_that_are_gone_are_not_marked():
    found = stand("su", BreakpointPolicy(tools="5m"))

    assert found.marks == {}
    assert found.notes == ()


BACK = BreakpointPolicy(history="5m", back=1)


def test_blocks_that_later_calls_do_not_repeat_get_no_mark():
    assert places(stand("tsuau", BACK)) == [(2, "5m")]
    assert places(stand("tsuau", msgspec.structs.replace(BACK, back=2))) == [(2, "5m")]


def test_before_what_is_left_out_an_answer_is_marked_where_it_takes_a_mark():
    assert places(stand("tsuauau", BACK, spoken=1)) == [(5, "5m")]


def test_two_answers_before_what_is_left_out_need_one_mark():
    assert places(stand("tsuaau", BACK, spoken=2)) == [(4, "5m")]


def test_a_conversation_that_later_calls_leave_out_gets_no_mark():
    found = stand("tsu", BACK)

    assert places(found) == []
    assert found.notes == ()
    assert places(stand("tsu", msgspec.structs.replace(BACK, back=12))) == []


def test_after_many_new_messages_a_mark_stands_where_the_previous_calls_is_in_sight():
    many = "tsuau" + "a" + "r" * 30 + "u"

    assert [at for at, _ in places(stand(many, BACK))] == [4, 35]
    assert [at for at, _ in places(stand(many + "au", BACK, spoken=1))] == [37]


def test_a_mark_behind_a_marked_answer_stands_in_sight_of_the_previous_calls_mark():
    long = "tsuaur" + "a" + "r" * 30
    found = stand(long, msgspec.structs.replace(BACK, back=2), spoken=1)

    assert [at for at, _ in places(found)] == [5, 34]


def test_in_explicit_mode_the_mark_before_what_was_left_out_is_repeated():
    policy = BreakpointPolicy(history="30m", explicit=True, back=1)

    assert [at for at, _ in places(stand("suauauau", policy, OPENAI))] == [3, 5]


@pytest.mark.parametrize(("given", "ttl"), [({3: "5m"}, "5m"), ({2: "1h", 3: "1h"}, "1h")])
def test_a_mark_before_one_of_the_callers_costs_nothing_and_ends_the_stable_slot(
    given: dict[int, str], ttl: str
):
    assert places(stand("tsmu", BreakpointPolicy(), given=given)) == [(1, ttl)]


@pytest.mark.parametrize(
    ("drawn", "given"),
    [
        ("tsmu", {0: "5m"}),
        ("tsmu", {1: "5m", 3: "5m"}),
        ("tsmuuu", {2: "5m", 3: "5m", 4: "5m", 5: "5m"}),
        ("mu", {1: "5m"}),
    ],
    ids=["nothing behind is marked", "theirs stands there", "all are in use", "nothing is stable"],
)
def test_no_other_mark_is_free(drawn: str, given: dict[int, str]):
    assert stand(drawn, BreakpointPolicy(), given=given) == MarkPlacement()


def test_on_openai_no_mark_is_free_for_it_may_displace_another():
    assert stand("tsmu", BreakpointPolicy(), OPENAI, {3: "30m"}) == MarkPlacement()
