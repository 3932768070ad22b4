from proxy.prefix.prediction.prompt_digests import (
    MAX_LEFT_OUT,
    MORE,
    blocks_left_out,
    digest_end,
    digest_start,
)
from proxy.prefix.prompts.prompt import PromptBlock
from tests.proxy.prefix.sendings import block

TOOLS = [block("search", 400, role="tools", at=at) for at in range(2)]
RULES = block("rules", 9_000, role="system", leads=True)
HELLO = block("hello", 100, at=1)


def begins(*blocks: PromptBlock) -> tuple[int, int]:
    found = digest_start(blocks)
    return found.head, found.first


def test_tools_and_the_stable_slot_are_counted():
    found = digest_start([*TOOLS, RULES, HELLO])

    assert (found.tools, found.stable) == (2, 3)


def test_a_conversation_that_goes_on_begins_in_the_same_way():
    answer, question = block("yes", 50, role="assistant", at=2), block("and?", 50, at=3)

    assert digest_start([RULES, HELLO, answer, question]) == digest_start([RULES, HELLO])


def test_another_first_message_leaves_the_stable_slot_as_it_was():
    (head, first), (same, other) = begins(RULES, HELLO), begins(RULES, block("bye", 90, at=1))

    assert head == same
    assert first != other


def test_another_stable_slot_changes_all_behind_it():
    (head, first), (another, other) = (
        begins(RULES, HELLO),
        begins(block("news", 9_000, role="system", leads=True), HELLO),
    )

    assert head != another
    assert first != other


def test_an_empty_prompt_begins_with_nothing():
    assert (digest_start([]).tools, digest_start([]).stable) == (0, 0)


def said(*names: str) -> list[PromptBlock]:
    """Rules, and messages of these names."""
    return [RULES, *(block(name, 90, at=at) for at, name in enumerate(names, 1))]


def left_by(now: str, *before: str) -> int:
    return blocks_left_out(said(*now), [digest_end(said(*each)) for each in before])


def test_a_call_that_goes_on_leaves_nothing_out():
    assert left_by("abcde", "abc") == 0
    assert left_by("abc", "abc") == 0


def test_what_a_later_call_does_not_repeat_is_counted_from_the_end():
    assert left_by("abxde", "abc") == 1
    assert left_by("axcde", "abc") == 2
    assert left_by("a", "abc") == 2


def test_callers_that_take_turns_are_compared_with_the_one_they_repeat_most_of():
    assert left_by("abxde", "zyx", "abc", "azz") == 1


def test_where_all_that_is_older_than_some_calls_changes_the_latest_call_says_how_much():
    assert left_by("axcdefg", "abc", "abcd", "abcdef") == 5
    assert left_by("axcdefg", "abcd", "aycdef") == 5


def test_a_call_that_repeats_no_message_goes_on_with_none():
    assert left_by("xbc", "abc") == MORE
    assert left_by("abc") == MORE
    assert blocks_left_out([block("news", 90, at=1)], [digest_end([HELLO])]) == MORE


def test_only_so_many_blocks_are_told_apart():
    long = "abcdefghijklmnopqrstuvwxyz"

    assert left_by(long[:-MAX_LEFT_OUT] + "0123", long) == MAX_LEFT_OUT
    assert left_by(long[: -MAX_LEFT_OUT - 1] + "0123", long) == MORE


def test_of_a_long_prompt_no_more_is_kept_than_is_told_apart():
    assert len(digest_end(said(*"abcdefghijklmnopqrstuvwxyz")).last) == MAX_LEFT_OUT * 8
