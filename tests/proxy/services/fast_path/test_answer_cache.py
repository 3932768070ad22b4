"""The answers of one process, by its policies and its clock."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from proxy.calls.answer_cache_port import CacheResult
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from proxy.fast_path.answer_cache.cache_request import CacheRequest
from proxy.fast_path.answer_cache.cached_answer import encode_answer
from proxy.services.fast_path.answer_cache import AnswerCache
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from proxy.services.fast_path.shared_store import SharedAnswerStore
from slo.policies.answer_cache import AnswerCachePolicy
from tests.fakes.call_dependencies import LoopTasks, call, route
from tests.fakes.clock import ManualClock
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER
from tests.proxy.services.fast_path.test_shared_store import FakeAnswerBytes

POLICY = AnswerCachePolicy(name="all", feature="chat", ttl=60.0, reusable=True)
BODY = json.dumps({"model": "m", "messages": []}).encode()
WHOLE = b'{"choices":[{"finish_reason":"stop"}]}'


class CacheHarness:
    """A cache with a clock to turn."""

    def __init__(
        self, *policies: AnswerCachePolicy, shared: SharedAnswerStore | None = None
    ) -> None:
        self.clock = ManualClock(1_000.0)
        memory = AnswerMemory(2**22)
        self.metrics = AnswerMetrics(memory, lambda team: team)
        self.cache = AnswerCache(policies or (POLICY,), memory, self.clock, self.metrics, shared)

    def read(self, body: bytes = BODY, **fields: Any) -> CacheRequest | None:
        return asyncio.run(self.cache.read(call(body, **fields), (route(),)))

    def request(self, **fields: Any) -> CacheRequest:
        request = self.read(**fields)
        assert request is not None
        return request

    def keep(self, request: CacheRequest, body: bytes = WHOLE, **fields: Any) -> None:
        answer = msgspec.structs.replace(
            ANSWER,
            **{
                "key": request.key,
                "feature": "chat",
                "body": body,
                "started": self.clock.now,
                "tags": request.tags,
                **fields,
            },
        )
        asyncio.run(self.cache.keep(request, answer))


def test_an_answer_is_found_until_it_is_too_old():
    cache = CacheHarness()
    request = cache.request()
    cache.keep(request)
    cache.clock.now += 59.0
    found = cache.cache.find(request)
    cache.clock.now += 1.0

    assert found is not None
    assert cache.cache.find(request) is None


def test_an_answer_too_old_for_one_caller_stays_for_others():
    cache = CacheHarness()
    cache.keep(cache.request())
    cache.clock.now += 30.0

    assert cache.cache.find(cache.request(cache_control="max-age=10")) is None
    assert cache.cache.find(cache.request()) is not None


@pytest.mark.parametrize(
    "fields",
    [{"feature": "other"}, {"cache_control": "no-store"}, {"endpoint": "files"}],
    ids=["no-policy", "no-store", "endpoint"],
)
def test_a_call_that_no_policy_covers_or_its_caller_excepts_is_not_cached(fields):
    assert CacheHarness().read(**fields) is None


def test_a_cache_covers_the_features_of_its_policies_as_they_are_now():
    cache = CacheHarness()
    asked, other = call(BODY), call(BODY, feature="other")
    before = (cache.cache.covers(asked), cache.cache.covers(other))
    cache.cache.update([msgspec.structs.replace(POLICY, feature="other")])
    after = (cache.cache.covers(asked), cache.cache.covers(other))
    cache.cache.update([])

    assert (before, after) == ((True, False), (False, True))
    assert not cache.cache.covers(other)


def test_a_large_body_and_a_long_answer_are_read_like_small_ones():
    cache = CacheHarness()
    body = json.dumps({"model": "m", "input": "x" * 200_000}).encode()
    request = cache.request(body=body)
    cache.keep(request, WHOLE + b" " * 600_000)

    assert cache.cache.find(request) is None  # it would take more than an eighth of the memory
    cache.keep(request, WHOLE + b" " * 200_000)
    assert cache.cache.find(request) is not None


def test_an_unfinished_answer_is_not_kept():
    cache = CacheHarness()
    cache.keep(cache.request(), b'{"choices":[{"finish_reason":"length"}]}')

    assert cache.cache.find(cache.request()) is None


def purge(scope: PurgeScope, name: str = "", team: str = "team_1") -> AnswerPurge:
    return AnswerPurge(team=team, scope=scope, name=name, purged_at=1_000.0)


@pytest.mark.parametrize(
    ("purged", "is_left"),
    [
        (purge(PurgeScope.TEAM), False),
        (purge(PurgeScope.FEATURE, "chat"), False),
        (purge(PurgeScope.FEATURE, "other"), True),
        (purge(PurgeScope.TAG, "kb"), False),
        (purge(PurgeScope.TAG, "other"), True),
        (purge(PurgeScope.KEY, "other"), True),
        (purge(PurgeScope.TEAM, team="team_2"), True),
    ],
)
def test_a_team_can_purge_its_answers_by_feature_tag_and_key(purged, is_left):
    cache = CacheHarness()
    request = cache.request(cache_tags="kb, prices")
    cache.keep(request)

    assert asyncio.run(cache.cache.purge(purged)) == 1 - is_left
    assert (cache.cache.find(request) is not None) is is_left


class FreedBody(bytes):
    """A body that counts, for all of them, how many were freed."""

    freed = 0

    def __del__(self) -> None:
        FreedBody.freed += 1


def test_a_purge_drops_and_frees_many_answers_a_few_at_a_time():
    cache = CacheHarness()
    request = cache.request()
    for number in range(1_000):
        cache.keep(msgspec.structs.replace(request, key=str(number)), FreedBody(WHOLE))

    async def purge_beside_work() -> tuple[int, list[int]]:
        purging = asyncio.ensure_future(cache.cache.purge(purge(PurgeScope.TEAM)))
        freed = [FreedBody.freed]
        while not purging.done():
            await asyncio.sleep(0)
            freed.append(FreedBody.freed)
        return purging.result(), freed

    purged, freed = asyncio.run(purge_beside_work())

    assert purged == FreedBody.freed == 1_000
    assert max(after - before for before, after in pairwise(freed)) <= 200


def test_an_answer_that_a_noted_purge_covers_is_dropped_once_it_is_asked_for():
    cache = CacheHarness()
    request = cache.request()
    cache.keep(request)
    cache.cache.note_purge(purge(PurgeScope.FEATURE, "chat"))
    kept_before = len(cache.cache._memory)

    assert cache.cache.find(request) is None
    assert (kept_before, len(cache.cache._memory)) == (1, 0)


def test_an_answer_that_was_under_way_when_it_was_purged_is_not_kept():
    cache = CacheHarness()
    cache.cache.note_purge(purge(PurgeScope.FEATURE, "chat"))
    request = cache.request()
    cache.keep(request, started=999.0)
    before = cache.cache.find(request)
    cache.keep(request, started=1_001.0)

    assert before is None
    assert cache.cache.find(request) is not None


@pytest.mark.parametrize(
    ("changes", "knows_purges", "is_given"),
    [
        ({}, True, True),
        ({"team": "team_2"}, True, False),
        ({"key": "other"}, True, False),
        ({"started": 900.0}, True, False),
        ({"started": 1_000.0, "tags": ("kb",)}, True, False),
        ({}, False, False),
    ],
    ids=["whole", "team", "key", "old", "purged", "unknown-purges"],
)
def test_an_answer_of_another_process_is_given_if_it_is_the_teams_own_and_fresh(
    changes, knows_purges, is_given
):
    async def fetch() -> tuple[Any, Any]:
        store = FakeAnswerBytes(takes=0.0)
        shared = SharedAnswerStore(store, LoopTasks(), lambda: 0.0)
        harness = CacheHarness(shared=shared)
        harness.cache.note_purge(purge(PurgeScope.TAG, "kb"))
        harness.cache.knows_purges = knows_purges
        request = await harness.cache.read(call(BODY), (route(),))
        assert request is not None
        answer = {"key": request.key, "feature": "chat", "started": 1_001.0, "tags": ()}
        store.kept[request.key] = encode_answer(
            msgspec.structs.replace(ANSWER, **{**answer, **changes})
        )
        harness.clock.now += 10.0
        return await harness.cache.fetch(request), harness.cache.find(request)

    fetched, found = asyncio.run(fetch())

    assert (fetched is not None) is (found is not None) is is_given


def test_a_kept_answer_is_stored_for_other_processes():
    async def keep() -> dict[str, bytes]:
        store = FakeAnswerBytes(takes=0.0)
        shared = SharedAnswerStore(store, LoopTasks(), lambda: 0.0)
        harness = CacheHarness(shared=shared)
        request = await harness.cache.read(call(BODY), (route(),))
        assert request is not None
        await harness.cache.keep(
            request, msgspec.structs.replace(ANSWER, key=request.key, body=WHOLE)
        )
        await asyncio.sleep(0.01)
        return store.kept

    assert len(asyncio.run(keep())) == 1


def test_features_without_number_are_forgotten():
    cache = CacheHarness(msgspec.structs.replace(POLICY, feature="*"))
    for number in range(5_000):
        assert cache.cache.covers(call(BODY, feature=str(number)))

    assert len(cache.cache._by_feature) <= 4_096


def test_calls_are_counted_by_the_part_of_the_cache_in_them():
    cache = CacheHarness()
    cache.cache.count(call(BODY), CacheResult.HIT, 1_500_000_000)
    cache.cache.count(call(BODY), CacheResult.MISS, None)
    samples = {
        (sample.name, sample.labels.get("result")): sample.value
        for metric in cache.metrics.collect()
        for sample in metric.samples
    }

    assert samples["thriftgate_answer_cache_calls_total", "hit"] == 1
    assert samples["thriftgate_answer_cache_calls_total", "miss"] == 1
    assert samples["thriftgate_answer_cache_saved_usd_total", None] == 1.5
