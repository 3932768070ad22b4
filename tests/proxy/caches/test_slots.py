"""Section numbers are those of the provider reference the rules were taken from."""

import pytest

from proxy.caches.slots import ServerSlots, SlotRules
from tests.proxy.caches.prompts import call, tokens, users


def test_7_3_a_slot_reads_the_longest_common_prefix_with_its_last_conversation() -> None:
    cache = ServerSlots()
    call(cache, users(("a", 700)), generated=tokens("answer", 50))

    assert cache.serve(users(("a", 700), ("answer", 50), ("b", 30)), 0).read == 749


def test_7_3_one_token_of_a_repeat_is_always_fresh() -> None:
    cache = ServerSlots()
    call(cache, users(("a", 700)))

    assert cache.serve(users(("a", 700)), 0).read == 699
    assert cache.serve(users(), 0).fresh == 0


@pytest.mark.parametrize(("shared", "left"), [(100, 0), (101, 199)])
def test_7_3_a_slot_is_chosen_when_it_holds_more_than_a_tenth_of_the_prompt(
    shared: int, left: int
) -> None:
    cache = ServerSlots(SlotRules(slots=2))
    call(cache, users(("a", 200)))
    call(cache, users(("b", 200)))
    served = call(cache, users(("b", shared), ("x", 1_000 - shared)))

    assert served.read == (shared if left else 0)
    assert cache.serve(users(("a", 200)), 0).read == left


def test_7_3_otherwise_the_least_recently_used_slot_is_taken() -> None:
    cache = ServerSlots(SlotRules(slots=2))
    for name in ("a", "b", "a", "c"):
        call(cache, users((name, 200)))

    assert cache.serve(users(("a", 200)), 0).read == 199
    assert cache.serve(users(("b", 200)), 0).read == 0


def test_7_3_calls_at_once_fill_one_slot_each_and_later_ones_hit() -> None:
    """Measured with llama.cpp: 8 calls on 4 slots read one 2k prefix afresh in 3 slots."""
    cache = ServerSlots()
    call(cache, users(("stem", 2_000), ("q", 20)))
    prompts = [users(("stem", 2_000), (f"q{n}", 20)) for n in range(8)]
    first = [cache.serve(one, 0).read for one in prompts[:4]]
    for one in prompts[:4]:
        cache.finish_answer(one, (), 1)
    second = [cache.serve(one, 2).read for one in prompts[4:]]

    assert sorted(first) == [0, 0, 0, 2_000]
    assert second == [2_000] * 4


def test_7_3_when_all_slots_are_busy_the_least_recently_used_is_taken_over() -> None:
    cache = ServerSlots(SlotRules(slots=1))
    cache.serve(users(("a", 200)), 0)

    assert cache.serve(users(("a", 200), ("b", 10)), 0).read == 200


def test_a_slot_that_was_taken_over_does_not_get_the_first_answer() -> None:
    cache = ServerSlots(SlotRules(slots=1))
    cache.serve(users(("a", 200)), 0)
    cache.serve(users(("b", 200)), 0)
    cache.finish_answer(users(("a", 200)), tokens("answer", 50), 0)

    assert cache.serve(users(("b", 200), ("c", 5)), 0).read == 200


def test_owners_do_not_share() -> None:
    cache = ServerSlots()
    call(cache, users(("a", 200), scope="one"))

    assert cache.serve(users(("a", 200), scope="two"), 0).read == 0


@pytest.mark.parametrize(("least", "read"), [(200, 199), (201, 0)])
def test_a_prompt_below_the_least_tokens_is_not_read(least: int, read: int) -> None:
    cache = ServerSlots(SlotRules(least=least))
    call(cache, users(("a", 200)))

    assert cache.serve(users(("a", 200)), 0).read == read
