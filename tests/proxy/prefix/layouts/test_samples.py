"""Bounded evidence of a feature's instructions."""

from hashlib import blake2b
from itertools import permutations
from time import thread_time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.prefix.layouts.samples import (
    CONVERSATIONS,
    DIFFERENT,
    LEAST,
    TOTAL,
    UNITS,
    VARIANTS,
    Samples,
    conversation_counts,
)

HOUR = 3600.0


def fingerprint(text: bytes) -> bytes:
    return blake2b(text, digest_size=16).digest()


def identity(number: int) -> bytes:
    return number.to_bytes(4, "big")


def samples(**more):
    return Samples(fingerprint, **more)


def words(found):
    return [[[u.words for u in v] for v in s.variants.values()] for s in found.conversations]


def test_a_call_is_kept_as_its_units():
    found = samples(shows=True)
    found.add(["Be kind.\n\n", "Now"], b"a", 0.0, first=True)
    (sample,) = found.conversations
    (variant,) = sample.variants.values()

    assert [(u.words, u.size, u.weight, u.telling, u.lines) for u in variant] == [
        ("Be kind.", 8, 9, True, 1),
        ("", 0, 1, False, 1),
        ("Now", 3, 3, False, 1),
    ]
    assert (sample.calls, sample.opened, sample.later_calls, sample.changes) == (1, True, 0, 0)


def test_how_much_followed_later_calls_is_known_by_its_length():
    found = samples()
    for number, history in enumerate((9_999, 500, 3_000, 5_000, 1_000_000)):
        found.add(["Be kind."], b"a", 0.0, first=number == 0, history=history)
    (sample,) = found.conversations

    assert sample.history == 1_008_500
    assert sample.later_lengths(0) == (4, 1_008_500)
    assert sample.later_lengths(2_000) == (3, 1_008_000)
    assert sample.later_lengths(4_500) == (2, 1_005_000)
    assert sample.later_lengths(1_000_000) == (1, 1_000_000)
    assert sample.later_lengths(1_000_001) == (0, 0)
    assert len(sample.lengths) == 4


def test_words_are_not_kept_where_they_may_not_be_shown():
    found = samples()
    found.add(["Be kind."], b"a", 0.0, first=True)

    assert words(found) == [[[""]]]


def test_changes_and_history_are_counted():
    found = samples()
    for number, said in enumerate(["a", "a", "b"]):
        found.add([said], b"a", 0.0, first=number == 0, history=100)
    (sample,) = found.conversations

    assert (sample.calls, sample.later_calls, sample.changes, sample.history) == (3, 2, 1, 200)
    assert len(sample.variants) == 2


def test_few_variants_of_a_conversation_are_kept_whatever_their_order():
    kept = set()
    for order in permutations("abcde"):
        found = samples(shows=True)
        for said in order:
            found.add([said], b"a", 0.0, first=False)
        kept.add(frozenset(found.conversations[0].variants))

    assert len(kept) == 1
    assert len(kept.pop()) == VARIANTS


def test_few_conversations_are_kept_whatever_their_order():
    kept = []
    for order in (range(99), reversed(range(99))):
        found = samples()
        for number in order:
            found.add(["a"], identity(number), 0.0, first=True)
        kept.append([sample.identity for sample in found.conversations])

    assert kept[0] == kept[1] == [identity(number) for number in range(CONVERSATIONS)]


def test_a_later_hour_goes_first():
    found = samples()
    for number in range(CONVERSATIONS):
        found.add(["a"], identity(number), 0.0, first=True)
    found.add(["a"], identity(999), HOUR, first=True)

    assert identity(999) in [sample.identity for sample in found.conversations]
    assert len(found.conversations) == CONVERSATIONS


def test_a_conversation_that_goes_on_stays():
    found = samples()
    for number in range(CONVERSATIONS):
        found.add(["a"], identity(number), 0.0, first=True)
    found.add(["a"], identity(31), HOUR, first=False)
    found.add(["a"], identity(999), HOUR, first=True)

    assert identity(31) in [sample.identity for sample in found.conversations]


def test_long_instructions_end_in_one_large_unit():
    found = samples()
    found.add(["a\n" * UNITS, "b"], b"a", 0.0, first=True)
    found.add(["a\n" * (UNITS + 5), "b"], b"a", 0.0, first=False)

    assert {len(v) for v in found.conversations[0].variants.values()} == {UNITS}


def test_the_units_kept_are_bounded():
    found = samples()
    for number in range(CONVERSATIONS):
        for variant in range(VARIANTS):
            found.add([f"{variant}\n" + "a\n" * UNITS], identity(number), 0.0, first=True)
            assert found.unit_count <= TOTAL
    assert LEAST <= len(found.conversations) < CONVERSATIONS


def test_the_different_units_kept_are_bounded():
    found = samples()
    for number in range(60):
        lines = "".join(f"{number} {line}\n" for line in range(UNITS - 100))
        found.add([lines], identity(number), 0.0, first=True)
        assert found.distinct_unit_count <= DIFFERENT
    assert found.conversations


def test_what_made_room_leaves_it_free_for_an_hour():
    found = samples()
    for number in range(60):
        lines = "".join(f"{number} {line}\n" for line in range(UNITS - 100))
        found.add([lines], identity(number), 0.0, first=True)
    assert len(found.conversations) < CONVERSATIONS
    for number in range(60):
        found.add(["a"], identity(number), HOUR, first=True)
    assert len(found.conversations) == CONVERSATIONS


@pytest.mark.slow
def test_a_flood_of_skeletons_is_soon_turned_away():
    found = samples()
    start = thread_time()
    for number in range(50_000):
        said = f"{number} line one\n{number} line two\n"
        found.add([said], fingerprint(identity(number)), 0.0, first=True)

    assert thread_time() - start < 10.0
    assert found.distinct_unit_count <= DIFFERENT


@pytest.mark.parametrize("said", ["\ud800", "\0", ""])
def test_odd_texts_do_no_harm(said):
    found = samples()
    found.add([said, said], b"a", 0.0, first=True)

    assert len(found.conversations) == 1


def test_telling_units_are_counted_once_per_conversation():
    found = samples()
    found.add(["Be kind.\nBe kind.\n-\n"], b"a", 0.0, first=True)
    found.add(["Be kind.\n"], b"b", 0.0, first=True)

    assert conversation_counts(found.conversations) == {fingerprint(b"Be kind."): 2}


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from("abc"), st.integers(0, 2), st.booleans()),
        min_size=1,
        max_size=120,
    )
)
def test_what_need_not_be_read_again_is_learned_all_the_same(calls):
    read, skimmed = samples(), samples()
    for number, said, hours, first in calls:
        who, now, more = identity(number), float(hours * HOUR), {"first": first, "history": 7}
        read.add([said], who, now, **more)
        if not skimmed.observe_without_texts(who, now, **more, mark=ord(said)):
            skimmed.add([said], who, now, **more, mark=ord(said))

    unmarked = [msgspec.structs.replace(sample, mark=0) for sample in skimmed.conversations]
    assert unmarked == list(read.conversations)


def test_instructions_that_nobody_named_are_read():
    found = samples()
    found.add(["a"], b"a", 0.0, first=True)

    assert not found.observe_without_texts(b"a", 0.0, first=False, history=0, mark=0)
