from collections.abc import Sequence

import pytest

from proxy.caches.regime import Regime
from proxy.prefix.prediction.sent_call import (
    MORE_LEFT_OUT,
    PromptEnding,
    SentCall,
    blocks_left_out,
    digest_end,
    digest_start,
)
from proxy.prefix.prompts.prompt import PromptBlock
from tests.proxy.prefix.sent_calls import (
    ANTHROPIC,
    OPENAI,
    VLLM,
    block,
    sent_chat,
    users,
)

MAX_LEFT_OUT = 12

TOOLS = [block("search", 400, role="tools", at=at) for at in range(2)]
RULES = block("rules", 9_000, role="system", leads=True)
HELLO = block("hello", 100, at=1)


def test_equal_prompt_beginnings_have_equal_points():
    one = users(VLLM, ("a", 10), ("b", 10))
    other = users(VLLM, ("a", 10), ("c", 10))

    assert one.points[:2] == other.points[:2]
    assert one.points[2] != other.points[2]
    assert one.ends == (0, 40, 80)


def test_without_a_conversation_only_the_end_of_leading_texts_may_be_a_breakpoint():
    assert sent_chat(VLLM, ("system", "a")).implicit_breakpoints == (0,)
    assert sent_chat(VLLM).implicit_breakpoints == ()


def test_a_prefix_parameter_changes_all_points():
    plain = users(VLLM, ("a", 10))

    assert users(VLLM, ("a", 10), place=b"x").points[0] != plain.points[0]
    assert users(VLLM, ("a", 10), early={"model": b"x"}).points[0] != plain.points[0]


def test_a_message_parameter_changes_only_points_of_messages():
    chosen = sent_chat(VLLM, ("system", "a"), ("user", "b"), late={"tool_choice": b"x"})
    plain = sent_chat(VLLM, ("system", "a"), ("user", "b"))

    assert chosen.points[:2] == plain.points[:2]
    assert chosen.points[2] != plain.points[2]


def test_names_and_values_of_parameters_do_not_run_into_one_another():
    one = users(VLLM, ("a", 10), early={"ab": b"c"})
    other = users(VLLM, ("a", 10), early={"a": b"bc"})

    assert one.points != other.points


def test_the_machine_is_chosen_by_the_first_tokens_alone():
    long, short = ("a", 2_000), ("b", 10)

    assert users(VLLM, long, short).machine_key == users(VLLM, long, ("c", 90)).machine_key
    assert users(VLLM, long).machine_key != users(VLLM, ("c", 2_000)).machine_key
    assert users(VLLM, short, ("c", 10)).machine_key != users(VLLM, short).machine_key


def test_tokens_are_estimated_from_bytes_without_a_count():
    call = SentCall(regime=VLLM, blocks=(block("a", 401),), tail=3)

    assert call.estimate == 101
    assert call.repeatable_blocks == 0
    assert SentCall(regime=VLLM).scale().tokens_of(0) == 0


def test_bytes_beyond_the_counted_ones_are_estimated_at_the_counted_rate():
    scale = users(VLLM, ("a", 100), ("b", 100)).scale(400, 40).with_total(200)

    assert [scale.tokens_of(size) for size in (0, 200, 400, 600, 800)] == [0, 20, 40, 120, 200]
    assert scale.with_total(80).tokens_of(600) == 60
    assert scale.with_total(20).tokens_of(400) == 10


def test_a_call_on_anthropic_needs_no_count():
    assert sent_chat(ANTHROPIC, ("user", "hello")).estimate > 0


def test_tools_and_the_stable_slot_are_counted():
    digest = digest_start([*TOOLS, RULES, HELLO])

    assert (digest.tools, digest.stable) == (2, 3)


def test_a_continued_conversation_has_the_same_prompt_start():
    answer, question = block("yes", 50, role="assistant", at=2), block("and?", 50, at=3)

    assert digest_start([RULES, HELLO, answer, question]) == digest_start([RULES, HELLO])


@pytest.mark.parametrize(
    "blocks",
    [
        [RULES, block("bye", 90, at=1)],
        [block("news", 9_000, role="system", leads=True), HELLO],
    ],
    ids=["first message", "stable slot"],
)
def test_another_first_message_or_stable_slot_makes_another_prompt_start(blocks):
    assert digest_start(blocks) != digest_start([RULES, HELLO])


def test_an_empty_prompt_has_an_empty_start():
    assert (digest_start([]).tools, digest_start([]).stable) == (0, 0)


def said(*names: str) -> list[PromptBlock]:
    """Rules, and messages of these names, a user's and answers by turns."""
    roles = ("assistant", "user")
    messages = enumerate(names, 1)
    return [RULES, *(block(name, 90, at=at, role=roles[at % 2]) for at, name in messages)]


def end_of(blocks: Sequence[PromptBlock]) -> PromptEnding:
    return digest_end(SentCall(regime=VLLM, blocks=(*blocks,)))


def left_by(now: str, *before: str, regime: Regime = VLLM) -> int:
    call = SentCall(regime=regime, blocks=(*said(*now),))
    return blocks_left_out(call, [end_of(said(*words)) for words in before])


def test_a_continuing_call_leaves_no_blocks_out():
    assert left_by("abcde", "abc") == 0
    assert left_by("abcd", "abc") == 0


def test_blocks_that_a_later_call_leaves_out_are_counted_from_the_end():
    assert left_by("abxde", "abc") == 1
    assert left_by("axcde", "abc") == 2


def test_a_call_that_only_began_as_another_one_did_leaves_nothing_of_it_out():
    assert left_by("abx", "abc") == MORE_LEFT_OUT
    assert left_by("abxde", "abc", "abxdy") == 1


def test_openais_mark_stands_where_calls_that_began_alike_part():
    assert left_by("abx", "abc", regime=OPENAI) == 1


def test_callers_that_take_turns_are_compared_with_the_one_they_repeat_most_of():
    assert left_by("abxde", "zyx", "abc", "azz") == 1


def test_blocks_left_out_are_counted_by_the_latest_call_where_older_ones_changed():
    assert left_by("axcdefgh", "abc", "abcd", "abcdef") == 5
    assert left_by("axcdefgh", "abcd", "aycdef") == 5


def test_a_call_that_repeats_no_message_leaves_more_than_the_maximum_out():
    assert left_by("xbcd", "abc") == MORE_LEFT_OUT
    assert left_by("abc") == MORE_LEFT_OUT
    news = SentCall(regime=VLLM, blocks=(block("news", 90, at=1),))
    assert blocks_left_out(news, [end_of([HELLO])]) == MORE_LEFT_OUT


def test_the_number_of_compared_end_blocks_is_bounded():
    long, more = "abcdefghijklmnopqrstuvwxyz", "0123456789ABCDEFGH"

    assert left_by(long[:-MAX_LEFT_OUT] + more, long) == MAX_LEFT_OUT
    assert left_by(long[: -MAX_LEFT_OUT - 1] + more, long) == MORE_LEFT_OUT
    assert MORE_LEFT_OUT not in [left_by(long[:-out] + more, long) for out in range(1, 13)]


def test_a_prompt_ending_keeps_only_the_compared_blocks():
    assert len(end_of(said(*"abcdefghijklmnopqrstuvwxyz")).last) == MAX_LEFT_OUT * 8


def test_the_first_1024_messages_of_a_call_have_short_fingerprints():
    call = users(VLLM, *(("a", 10 + number) for number in range(1_100)))

    assert [len(prints) for prints in call.short_fingerprints] == [0, 0, 1_024 * 8]
