"""Section numbers are those of the provider reference the rules were taken from."""

import pytest

from proxy.caches.prefix_unit import PrefixUnitRules, PrefixUnits
from tests.proxy.caches.prompts import call, tokens, users

AT_ONCE = PrefixUnitRules(build=0.0)


def test_5_the_third_call_with_a_shared_stem_is_the_first_to_hit() -> None:
    """A + B, then A + C makes A a unit, and A + D hits it."""
    cache = PrefixUnits()
    reads = [
        call(cache, users(("a", 1_000), (rest, 500)), now=60 * index).read
        for index, rest in enumerate("bcd")
    ]

    assert reads == [0, 0, 960]


def test_5_the_same_holds_when_the_stems_end_in_the_same_step() -> None:
    cache = PrefixUnits()
    reads = [
        call(cache, users(("a", 1_000), (rest, 10)), now=60 * index).read
        for index, rest in enumerate("bcd")
    ]

    assert reads == [0, 0, 960]


def test_5_a_longer_prompt_hits_the_end_of_an_earlier_input() -> None:
    cache = PrefixUnits(AT_ONCE)
    cache.begin_answer(users(("a", 1_000)), 0)

    assert cache.serve(users(("a", 1_000), ("b", 100)), 0).read == 960
    assert cache.serve(users(("a", 999), ("b", 100)), 0).read == 0


def test_5_the_next_turn_hits_the_end_of_the_answer() -> None:
    cache = PrefixUnits(AT_ONCE)
    call(cache, users(("a", 1_000)), generated=tokens("answer", 300))
    grown = users(("a", 1_000), ("answer", 300), ("b", 50))
    regenerated = users(("a", 1_000), ("other", 300), ("b", 50))

    assert cache.serve(grown, 0).read == 1_280
    assert cache.serve(regenerated, 0).read == 960


def test_5_measured_8576_of_8643_is_a_multiple_of_128() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, step=128))
    call(cache, users(("a", 8_643)))
    served = cache.serve(users(("a", 8_643)), 0)

    assert (served.read, served.fresh) == (8_576, 67)


def test_5_hits_and_misses_add_up_to_the_prompt_and_writes_are_free() -> None:
    cache = PrefixUnits(AT_ONCE)
    call(cache, users(("a", 1_000)))
    served = cache.serve(users(("a", 1_000), ("b", 77)), 0)

    assert served.read + served.fresh == 1_077
    assert served.written == {}


def test_5_a_unit_takes_seconds_to_build_and_hours_to_go() -> None:
    cache = PrefixUnits()
    sent_prompt = users(("a", 1_000))
    call(cache, sent_prompt, now=0)

    assert cache.serve(sent_prompt, 1.9).read == 0
    assert cache.serve(sent_prompt, 2).read == 960
    assert cache.serve(sent_prompt, 7_202).read == 960
    assert cache.serve(sent_prompt, 14_402).read == 960
    assert cache.serve(sent_prompt, 21_603).read == 0


def test_5_repeating_a_prompt_while_its_unit_is_built_does_not_delay_it() -> None:
    cache = PrefixUnits()
    sent_prompt = users(("a", 1_000))
    call(cache, sent_prompt, now=0)
    call(cache, sent_prompt, now=1.5)

    assert cache.serve(sent_prompt, 2).read == 960


def test_5_a_unit_that_died_is_built_anew() -> None:
    cache = PrefixUnits()
    sent_prompt = users(("a", 1_000))
    call(cache, sent_prompt, now=0)
    call(cache, sent_prompt, now=8_000)

    assert cache.serve(sent_prompt, 8_001).read == 0
    assert cache.serve(sent_prompt, 8_002).read == 960


def test_5_a_system_message_in_the_middle_breaks_the_hit_behind_it() -> None:
    cache = PrefixUnits(AT_ONCE)
    call(cache, users(("a", 1_000)))
    call(cache, users(("a", 1_000), ("b", 1_000)))

    assert cache.serve(users(("a", 1_000), ("system", 5), ("b", 1_000)), 0).read == 960


def test_5_accounts_do_not_share() -> None:
    cache = PrefixUnits(AT_ONCE)
    call(cache, users(("a", 1_000), scope="one"))

    assert cache.serve(users(("a", 1_000), scope="two"), 0).read == 0


@pytest.mark.parametrize(("count", "read"), [(63, 0), (64, 64)])
def test_5_less_than_a_step_is_never_counted(count: int, read: int) -> None:
    cache = PrefixUnits(AT_ONCE)
    call(cache, users(("a", count)))

    assert cache.serve(users(("a", count)), 0).read == read


def test_a_prompt_below_the_least_tokens_is_not_cached() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, least=1_024))
    call(cache, users(("a", 1_000)))

    assert len(cache) == 0
    assert cache.serve(users(("a", 1_000)), 0).read == 0


def test_places_and_endings_are_bounded() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, most=8, endings=3))
    for n in range(20):
        call(cache, users(("stem", 640), (f"q{n}", 30)))
        call(cache, users((f"a{n}", 640)))

    assert len(cache._units) <= 8
    assert len(cache._seen) <= 8
    assert len(cache) <= 24


def test_a_prompt_of_exactly_the_least_tokens_is_cached() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, least=1_024))
    call(cache, users(("a", 1_024)))

    assert cache.serve(users(("a", 1_024)), 0).read == 1_024


def test_the_unit_used_least_recently_goes_first() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, most=2))
    for name in ("a", "b"):
        call(cache, users((name, 64)))
    cache.serve(users(("a", 64)), 0)
    call(cache, users(("c", 64)))

    assert cache.serve(users(("a", 64)), 0).read == 64
    assert cache.serve(users(("b", 64)), 0).read == 0
    assert cache.serve(users(("c", 64)), 0).read == 64


def test_of_many_endings_the_oldest_goes_first() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, endings=2))
    for n in range(3):
        cache.finish_answer(users(("a", 64), (f"q{n}", 30)), (), 0)
    reads = [cache.serve(users(("a", 64), (f"q{n}", 30)), 0).read for n in range(3)]

    assert len(cache) == 2
    assert reads == [0, 64, 64]


def test_the_places_seen_least_recently_are_forgotten_first() -> None:
    cache = PrefixUnits(PrefixUnitRules(build=0, most=2))
    for name in ("a", "b", "a", "c"):
        cache.begin_answer(users((name, 64), (f"{name} rest", 30)), 0)

    assert len(cache._seen) == 2
    cache.begin_answer(users(("a", 64), ("other", 10)), 0)
    assert cache.serve(users(("a", 64), ("third", 10)), 0).read == 64
