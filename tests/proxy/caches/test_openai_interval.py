"""Section numbers are those of the provider reference the rules were taken from."""

from dataclasses import replace

import pytest

from proxy.caches.openai_interval import AZURE, OpenAIIntervalRules, OpenAIIntervals
from tests.proxy.caches.prompts import block, call, prompt, users


def test_1_3_writes_are_free_and_breakpoints_stand_every_2048_tokens() -> None:
    cache = OpenAIIntervals()
    first = call(cache, users(("a", 5_000)))
    second = call(cache, users(("a", 5_000), ("b", 300)))

    assert (first.read, first.written, first.fresh) == (0, {}, 5_000)
    assert (second.read, second.written, second.fresh) == (4_096, {}, 1_204)


@pytest.mark.parametrize(("interval", "cached"), [(2_048, 2_048), (2_047, 1_920), (1_921, 1_920)])
def test_1_3_cached_tokens_are_rounded_down_to_128(interval: int, cached: int) -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(interval=interval))
    call(cache, users(("a", 2_100)))

    assert cache.serve(users(("a", 2_100)), 0).read == cached


@pytest.mark.parametrize(("least", "read"), [(1_024, 1_024), (2_048, 0)])
def test_1_3_and_12_the_least_tokens_are_disputed_so_they_can_be_set(least: int, read: int) -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(interval=128, least=least))
    call(cache, users(("a", 1_100)))

    assert cache.serve(users(("a", 1_100)), 0).read == read


def test_1_6_one_different_token_among_the_first_1024_leaves_nothing_cached() -> None:
    cache = OpenAIIntervals(AZURE)
    call(cache, users(("a", 1_023), ("b", 1), ("c", 3_000)))

    assert cache.serve(users(("a", 1_023), ("x", 1), ("c", 3_000)), 0).read == 0


def test_1_6_after_1024_tokens_azure_hits_in_steps_of_128() -> None:
    cache = OpenAIIntervals(AZURE)
    call(cache, users(("a", 3_000)))

    assert cache.serve(users(("a", 1_023)), 0).read == 0
    assert cache.serve(users(("a", 1_024)), 0).read == 1_024
    assert cache.serve(users(("a", 1_200), ("x", 500)), 0).read == 1_152
    assert cache.serve(users(("a", 3_000)), 0).read == 2_944


def test_1_3_in_memory_entries_die_after_five_to_ten_idle_minutes() -> None:
    reads = []
    for seed in range(40):
        for idle in (299, 450, 601):
            cache = OpenAIIntervals(seed=seed)
            call(cache, users(("a", 2_100)))
            reads.append((idle, cache.serve(users(("a", 2_100)), idle).read))

    assert {read for idle, read in reads if idle == 299} == {2_048}
    assert {read for idle, read in reads if idle == 450} == {0, 2_048}
    assert {read for idle, read in reads if idle == 601} == {0}


def test_1_3_the_same_seed_draws_the_same_lifetimes() -> None:
    def reads(seed: int) -> list[int]:
        cache = OpenAIIntervals(seed=seed)
        for n in range(20):
            call(cache, users((f"a{n}", 2_100)))
        return [cache.serve(users((f"a{n}", 2_100)), 450).read for n in range(20)]

    assert reads(7) == reads(7)
    assert reads(7) != reads(8)


def test_a_key_draws_the_lifetimes_that_the_same_prompts_would_have_without_it() -> None:
    def reads(key: str) -> list[int]:
        cache = OpenAIIntervals(seed=7)
        prompts = [replace(users((f"a{n}", 2_100)), key=key) for n in range(20)]
        for one in prompts:
            call(cache, one)
        return [cache.serve(one, 450).read for one in prompts]

    assert reads("") == reads("k") == reads("l")


@pytest.mark.parametrize(
    ("retention", "oldest"), [("", 3_600), ("in_memory", 3_600), ("24h", 86_400)]
)
def test_1_3_in_memory_entries_die_within_an_hour_and_24h_ones_within_a_day(
    retention: str, oldest: int
) -> None:
    cache = OpenAIIntervals()
    sent_prompt = replace(users(("a", 2_100)), retention=retention)
    call(cache, sent_prompt)
    reads = [cache.serve(sent_prompt, now).read for now in range(0, oldest + 250, 250)]

    assert all(reads[:-1])
    assert cache.serve(sent_prompt, oldest + 250).read == 0


def test_1_3_24h_entries_typically_live_for_thirty_idle_minutes() -> None:
    for idle, read in ((1_800, 2_048), (1_801, 0)):
        cache = OpenAIIntervals()
        sent_prompt = replace(users(("a", 2_100)), retention="24h")
        call(cache, sent_prompt)

        assert cache.serve(sent_prompt, idle).read == read


def test_1_3_entry_lives_as_long_as_the_call_that_wrote_it_asked() -> None:
    for wrote, read in (("24h", 2_048), ("in_memory", 0)):
        cache = OpenAIIntervals()
        call(cache, replace(users(("a", 2_100)), retention=wrote))

        assert cache.serve(users(("a", 2_100)), 1_000).read == read


def test_1_4_above_15_calls_a_minute_others_go_to_another_machine_and_miss() -> None:
    cache = OpenAIIntervals()
    sent_prompt = users(("a", 2_100))
    reads = [call(cache, sent_prompt, now=n).read for n in range(45)]

    assert reads == ([0] + [2_048] * 14) * 3


def test_1_4_the_next_minute_begins_at_the_home_machine_again() -> None:
    cache = OpenAIIntervals()
    sent_prompt = users(("a", 2_100))
    for n in range(16):
        call(cache, sent_prompt, now=n)

    assert call(cache, sent_prompt, now=60).read == 2_048


def test_1_4_several_keys_keep_each_machine_below_its_limit_and_begin_cold_each() -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(machines=1_000))
    misses = {True: 0, False: 0}
    for sharded in (True, False):
        name = "a" if sharded else "b"
        for n in range(60):
            key = f"prefix:{n % 8}" if sharded else "prefix"
            read = call(cache, users((name, 2_100), key=key), now=n / 2).read
            misses[sharded] += read == 0

    assert misses == {True: 8, False: 4}


def test_1_4_the_key_chooses_the_machine_and_what_may_be_hit() -> None:
    cache = OpenAIIntervals()
    call(cache, users(("a", 2_100), key="one"))

    assert cache.serve(users(("a", 2_100), key="two"), 0).read == 0
    assert cache.serve(users(("a", 2_100), key="one"), 0).read == 2_048


def test_1_4_prompts_that_differ_in_their_first_256_tokens_use_different_machines() -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(machines=4))
    for n in range(64):
        call(cache, users((f"a{n}", 2_100)))
    entries = [len(machine) for machine in cache._machines]

    assert sum(entries) == len(cache) == 64
    assert min(entries) > 0


def test_1_4_tools_are_part_of_what_chooses_the_machine() -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(machines=1_000))
    for n in range(16):
        call(cache, prompt(block(f"tools{n}", 300, role="tools"), block("a", 2_100)))

    assert sum(len(machine) > 0 for machine in cache._machines) > 10


def test_cache_entry_is_read_only_once_the_answer_that_stores_it_began() -> None:
    cache = OpenAIIntervals()
    cache.serve(users(("a", 2_100)), 0)

    assert cache.serve(users(("a", 2_100)), 0).read == 0
    cache.begin_answer(users(("a", 2_100)), 0)
    assert cache.serve(users(("a", 2_100)), 0).read == 2_048


def test_a_machine_keeps_so_many_entries_and_so_many_routes_are_counted() -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(machines=1, most=3))
    for n in range(10):
        call(cache, users((f"a{n}", 2_100)))

    assert len(cache) == 3
    assert len(cache._routes) == 3


def test_1_4_calls_are_counted_by_the_minute() -> None:
    """A prompt known to the home machine only tells which machine a call went to."""
    cache = OpenAIIntervals()
    known_prompt = users(("stem", 256), ("a", 2_000))
    call(cache, known_prompt, now=100)
    for n in range(14):
        call(cache, users(("stem", 256), (f"b{n}", 2_000)), now=100)

    assert cache.serve(known_prompt, 159.9).read == 0
    assert cache.serve(known_prompt, 160).read == 2_048


@pytest.mark.parametrize(("shared", "machines"), [(256, {1}), (255, {2, 3, 4}), (20, {2, 3, 4})])
def test_1_4_the_first_256_tokens_choose_the_machine(shared: int, machines: set[int]) -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(machines=4))
    for n in range(12):
        call(cache, users(("stem", shared), (f"a{n}", 2_100)))

    assert sum(len(machine) > 0 for machine in cache._machines) in machines


def test_the_route_called_least_recently_is_forgotten_first() -> None:
    cache = OpenAIIntervals(OpenAIIntervalRules(most=2))
    for name in ("a", "b", "a", "c"):
        call(cache, users((name, 2_100)))

    assert sorted(calls for _, calls in cache._routes.values()) == [1, 2]
