"""Bounded evidence of a feature's instructions."""

from hashlib import blake2b
from itertools import permutations
from time import thread_time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.samples import (
    Samples,
    SeenUnit,
    conversation_counts,
    is_distinctive,
    split_units,
)
from tests.examples import examples

MAX_CONVERSATIONS = 32
MAX_DISTINCT_UNITS = 16384
MAX_SPLIT_LINE_CHARS = 65536
MAX_TEXT_UNITS = 4096
MAX_UNITS = 65536
MAX_VARIANT_UNITS = 2048
MAX_VARIANTS = 3
MAX_WHOLE_LINE_CHARS = 200
MIN_CONVERSATIONS = 5

MEGABYTES = 5_000_000
HOUR = 3600.0


@pytest.mark.slow
@given(st.text("ab. \n!?\0\u3002", max_size=600), st.integers(1, 9))
def test_units_concatenate_to_the_text(text, limit):
    units = split_units(text, limit)

    assert "".join(units) == text
    assert len(units) <= limit
    assert all(units)


def test_lines_are_units():
    assert split_units("one\n\ntwo\n") == ("one\n", "\n", "two\n")


def test_an_empty_text_has_no_units():
    assert split_units("") == ()


def test_a_long_line_is_split_into_sentences():
    sentence = "x" * MAX_WHOLE_LINE_CHARS + ". "

    assert split_units(f"short. line\n{sentence}Then? Yes! End.\n") == (
        "short. line\n",
        sentence,
        "Then? ",
        "Yes! ",
        "End.\n",
    )


def test_a_line_without_end_is_one_unit():
    assert len(split_units("a. " * MAX_SPLIT_LINE_CHARS)) == 1


def test_text_beyond_the_unit_limit_is_one_unit():
    units = split_units("a\n" * (MAX_TEXT_UNITS + 9))

    assert len(units) == MAX_TEXT_UNITS
    assert units[-1] == "a\n" * 10


@pytest.mark.parametrize("pattern", ["a", "\n", ". ", "ab. \n", "ab cd. " * 40 + "\n", ".'"])
def test_splitting_five_megabytes_takes_little_time(pattern):
    text = pattern * (MEGABYTES // len(pattern))
    times = []
    for _ in range(3):
        start = thread_time()
        split_units(text)
        times.append(thread_time() - start)

    assert min(times) < 0.2


@pytest.mark.parametrize(
    ("unit", "tells"),
    [("", False), ("- ", False), ("```\n", False), ("a-b_c", False), ("## Tools", True)],
)
def test_only_units_with_words_are_distinctive(unit, tells):
    assert is_distinctive(unit) is tells


@pytest.mark.slow
def test_long_punctuation_is_found_indistinctive_quickly():
    start = thread_time()

    assert not is_distinctive("-_" * MEGABYTES)
    assert thread_time() - start < 2.0


def fingerprint(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def identity(number: int) -> bytes:
    return number.to_bytes(4, "big")


def samples(**more):
    return Samples(fingerprint, **more)


def words(samples):
    return [[[u.words for u in v] for v in s.variants.values()] for s in samples.conversations]


def test_a_call_is_kept_as_its_units():
    learned = samples(shows=True)
    learned.add_call(["Be kind.\n\n", "Now"], b"a", 0.0, first=True)
    (sample,) = learned.conversations
    (variant,) = sample.variants.values()

    assert [(u.words, u.size, u.weight, u.telling, u.lines) for u in variant] == [
        ("Be kind.", 8, 9, True, 1),
        ("", 0, 1, False, 1),
        ("Now", 3, 3, False, 1),
    ]
    assert (sample.calls, sample.firsts, sample.later_calls, sample.changes) == (1, 1, 0, 0)


def test_lengths_behind_instructions_are_counted_by_step():
    learned = samples()
    for number, history in enumerate((9_999, 500, 3_000, 5_000, 1_000_000)):
        learned.add_call(["Be kind."], b"a", 0.0, first=number == 0, history=history)
    (sample,) = learned.conversations

    assert list(sample.lengths.values()) == [
        (1, 500, 500, 0),
        (1, 3_000, 500, 3_000),
        (1, 5_000, 3_000, 500),
        (1, 1_000_000, 5_000, 3_000),
    ]


def test_the_call_before_one_met_midway_is_taken_to_be_as_long():
    learned = samples()
    learned.add_call(["Be kind."], b"a", 0.0, first=False, history=700)
    (sample,) = learned.conversations

    assert list(sample.lengths.values()) == [(1, 700, 700, 0)]


def test_samples_keep_no_words_where_they_may_not_be_shown():
    learned = samples()
    learned.add_call(["Be kind."], b"a", 0.0, first=True)

    assert words(learned) == [[[""]]]


def test_changes_and_history_are_counted():
    learned = samples()
    for number, text in enumerate(["a", "a", "b"]):
        learned.add_call([text], b"a", 0.0, first=number == 0, history=100)
    (sample,) = learned.conversations

    assert (sample.calls, sample.later_calls, sample.changes) == (3, 2, 1)
    assert list(sample.lengths.values()) == [(2, 200, 200, 100)]
    assert len(sample.variants) == 2


def test_first_calls_that_are_alike_are_counted_and_change_nothing():
    learned = samples()
    for text in ("a", "b", "c"):
        learned.add_call([text], b"a", 0.0, first=True)
    (sample,) = learned.conversations

    assert (sample.firsts, sample.later_calls, sample.followed, sample.changes) == (3, 0, 0, 0)


def test_pauses_are_counted_before_further_calls_alone():
    learned = samples()
    for at, first in ((100.0, True), (130.0, True), (150.0, False), (155.0, False)):
        learned.add_call(["a"], b"a", at, first=first)
    (sample,) = learned.conversations

    assert (sample.pauses, sample.latest_at) == (25.0, 155.0)


def test_few_variants_of_a_conversation_are_kept_whatever_their_order():
    unit_sets = set()
    for order in permutations("abcde"):
        learned = samples(shows=True)
        for text in order:
            learned.add_call([text], b"a", 0.0, first=False)
        unit_sets.add(frozenset(learned.conversations[0].variants))

    assert len(unit_sets) == 1
    assert len(unit_sets.pop()) == MAX_VARIANTS


def test_few_conversations_are_kept_whatever_their_order():
    unit_lists = []
    for order in (range(99), reversed(range(99))):
        learned = samples()
        for number in order:
            learned.add_call(["a"], identity(number), 0.0, first=True)
        unit_lists.append([sample.identity for sample in learned.conversations])

    assert (
        unit_lists[0] == unit_lists[1] == [identity(number) for number in range(MAX_CONVERSATIONS)]
    )


def test_a_later_hour_goes_first():
    learned = samples()
    for number in range(MAX_CONVERSATIONS):
        learned.add_call(["a"], identity(number), 0.0, first=True)
    learned.add_call(["a"], identity(999), HOUR, first=True)

    assert identity(999) in [sample.identity for sample in learned.conversations]
    assert len(learned.conversations) == MAX_CONVERSATIONS


def test_a_conversation_that_goes_on_stays():
    learned = samples()
    for number in range(MAX_CONVERSATIONS):
        learned.add_call(["a"], identity(number), 0.0, first=True)
    learned.add_call(["a"], identity(31), HOUR, first=False)
    learned.add_call(["a"], identity(999), HOUR, first=True)

    assert identity(31) in [sample.identity for sample in learned.conversations]


def test_long_instructions_end_in_one_large_unit():
    learned = samples()
    learned.add_call(["a\n" * MAX_VARIANT_UNITS, "b"], b"a", 0.0, first=True)
    learned.add_call(["a\n" * (MAX_VARIANT_UNITS + 5), "b"], b"a", 0.0, first=False)

    assert {len(v) for v in learned.conversations[0].variants.values()} == {MAX_VARIANT_UNITS}


def kept_units(samples: Samples) -> list[SeenUnit]:
    """Every unit of the conversations that are kept."""
    variants = [row for sample in samples.conversations for row in sample.variants.values()]
    return [unit for row in variants for unit in row]


def test_the_units_kept_are_bounded():
    learned = samples()
    for number in range(MAX_CONVERSATIONS):
        for variant in range(MAX_VARIANTS):
            learned.add_call(
                [f"{variant}\n" + "a\n" * MAX_VARIANT_UNITS], identity(number), 0.0, first=True
            )
        assert len(kept_units(learned)) <= MAX_UNITS
    assert MIN_CONVERSATIONS <= len(learned.conversations) < MAX_CONVERSATIONS


def test_the_different_units_kept_are_bounded():
    learned = samples()
    for number in range(60):
        lines = "".join(f"{number} {line}\n" for line in range(MAX_VARIANT_UNITS - 100))
        learned.add_call([lines], identity(number), 0.0, first=True)
        assert len(set(kept_units(learned))) <= MAX_DISTINCT_UNITS
    assert learned.conversations


def test_the_room_of_dropped_samples_stays_free_for_an_hour():
    learned = samples()
    for number in range(60):
        lines = "".join(f"{number} {line}\n" for line in range(MAX_VARIANT_UNITS - 100))
        learned.add_call([lines], identity(number), 0.0, first=True)
    assert len(learned.conversations) < MAX_CONVERSATIONS
    for number in range(60):
        learned.add_call(["a"], identity(number), HOUR, first=True)
    assert len(learned.conversations) == MAX_CONVERSATIONS


@pytest.mark.slow
def test_a_flood_of_skeletons_is_soon_turned_away():
    learned = samples()
    start = thread_time()
    for number in range(50_000):
        text = f"{number} line one\n{number} line two\n"
        learned.add_call([text], fingerprint(identity(number)), 0.0, first=True)

    assert thread_time() - start < 10.0
    assert len(set(kept_units(learned))) <= MAX_DISTINCT_UNITS


@pytest.mark.parametrize("text", ["\ud800", "\0", ""])
def test_samples_take_texts_of_any_characters(text):
    learned = samples()
    learned.add_call([text, text], b"a", 0.0, first=True)

    assert len(learned.conversations) == 1


def test_telling_units_are_counted_once_per_conversation():
    learned = samples()
    learned.add_call(["Be kind.\nBe kind.\n-\n"], b"a", 0.0, first=True)
    learned.add_call(["Be kind.\n"], b"b", 0.0, first=True)

    assert conversation_counts(learned.conversations) == {fingerprint(b"Be kind."): 2}


@examples(25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=120,
    )
)
def test_calls_without_texts_are_sampled_like_calls_with_texts(calls):
    read, skimmed = samples(), samples()
    for number, text, hours, first in calls:
        who, now, more = identity(number), float(hours * HOUR), {"first": first, "history": 7}
        read.add_call([text], who, now, **more)
        if not skimmed.observe_without_texts(who, now, **more, mark=ord(text)):
            skimmed.add_call([text], who, now, **more, mark=ord(text))

    unmarked = [msgspec.structs.replace(sample, mark=0) for sample in skimmed.conversations]
    assert unmarked == list(read.conversations)


def test_calls_without_a_mark_need_their_texts():
    learned = samples()
    learned.add_call(["a"], b"a", 0.0, first=True)

    assert not learned.observe_without_texts(b"a", 0.0, first=False, history=0, mark=0)
