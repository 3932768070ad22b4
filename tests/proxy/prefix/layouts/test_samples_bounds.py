"""Bounds of the evidence of a feature's instructions, on both sides."""

import pytest

from proxy.prefix.layouts.samples import _split_long_line, split_units
from tests.proxy.prefix.layouts.test_samples import identity, samples, words


@pytest.mark.parametrize(("chars", "units"), [(200, 1), (201, 2)])
def test_a_line_of_200_characters_is_whole_and_a_longer_one_is_split(chars: int, units: int):
    assert len(split_units("Yes. " + "x" * (chars - 5))) == units


@pytest.mark.parametrize(("more", "units"), [("", 1_024), ("x", 1)])
def test_a_line_of_65536_characters_is_split_and_a_longer_one_is_whole(more: str, units: int):
    assert len(split_units(("x" * 62 + ". ") * 1_024 + more)) == units


@pytest.mark.parametrize(
    ("histories", "steps"),
    [((0, 1_023), 1), ((1_023, 1_024), 2), ((31_744, 32_768), 2), ((32_768, 33_792), 1)],
)
def test_a_step_of_lengths_is_1024_bytes_and_from_32_steps_on_all_are_one(
    histories: tuple[int, int], steps: int
):
    learned = samples()
    for history in histories:
        learned.add_call(["Be kind."], b"a", 0.0, first=False, history=history)

    assert len(learned.conversations[0].lengths) == steps


@pytest.mark.parametrize("chars", [48, 49])
def test_up_to_48_characters_of_a_unit_are_shown(chars: int):
    learned = samples(shows=True)
    learned.add_call(["x" * chars], b"a", 0.0, first=True)

    assert words(learned) == [[["x" * 48]]]


@pytest.mark.parametrize(("now", "is_kept"), [(3_599.0, False), (3_600.0, True)])
def test_an_hour_is_over_after_3600_seconds(now: float, is_kept: bool):  # noqa: FBT001
    learned = samples()
    for number in range(32):
        learned.add_call(["a"], identity(number), 0.0, first=True)
    learned.add_call(["a"], identity(999), now, first=True)

    assert (identity(999) in {sample.identity for sample in learned.conversations}) is is_kept


@pytest.mark.parametrize("conversations", [10, 11])
def test_ten_conversations_of_6144_units_are_kept_and_no_eleventh(conversations: int):
    learned = samples()
    for number in range(conversations):
        for variant in range(3):
            learned.add_call([f"{variant}\n" + "a\n" * 2_047], identity(number), 0.0, first=True)

    assert len(learned.conversations) == 10


def distinct_lines(number: int) -> str:
    return "".join(f"{number} {line}\n" for line in range(2_048))


@pytest.mark.parametrize(("more", "kept"), [(0, 8), (1, 4)])
def test_16384_different_units_are_kept_and_with_one_more_half_of_the_conversations(
    more: int, kept: int
):
    learned = samples()
    for number in range(8):
        learned.add_call([distinct_lines(number)], identity(number), 0.0, first=True)
    for number in range(more):
        learned.add_call(["a"], identity(100 + number), 0.0, first=True)

    assert len(learned.conversations) == kept


def test_five_conversations_have_room_whatever_was_dropped_in_their_hour():
    learned = samples()
    for number in range(9):
        learned.add_call([distinct_lines(number)], identity(number), 0.0, first=True)
    assert len(learned.conversations) == 4
    for number in range(100, 110):
        learned.add_call(["a"], identity(number), 0.0, first=True)

    assert len(learned.conversations) == 5


@pytest.mark.parametrize(("chars", "is_cached"), [(1_000, True), (1_001, False)])
def test_sentences_of_a_line_of_1000_characters_are_remembered(chars: int, *, is_cached: bool):
    line = "Yes. " + "x" * (chars - 5)

    assert (_split_long_line(line) is _split_long_line(line)) == is_cached


def test_samples_count_the_bytes_of_conversations_units_and_their_places():
    learned = samples()
    assert learned.size_bytes == 1_000
    learned.add_call(["a\na\nb"], identity(1), 0.0, first=True)

    assert learned.size_bytes == 1_000 + 900 + 2 * 350 + 3 * 8
