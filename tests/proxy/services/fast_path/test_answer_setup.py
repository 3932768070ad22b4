"""The cache of a gateway: it follows its policies, and purges of other processes."""

import asyncio

from proxy.configuration import read_snapshot
from proxy.fast_path.answer_cache.answer_purges import PurgeScope
from proxy.services.fast_path.answer_setup import StoredPurges, running_answers
from proxy.settings import Settings
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import KEY, call
from tests.proxy.services.fast_path.test_answer_cache import BODY, CacheHarness

FILE = '[[answer_cache]]\nname = "chat"\nfeature = "{feature}"\n'


def purges_of(harness: CacheHarness, store) -> StoredPurges:
    return StoredPurges(harness.cache, store, harness.clock)


def test_a_purge_reaches_the_cache_of_another_process(store):
    here, there = CacheHarness(), CacheHarness()
    requests = [harness.request() for harness in (here, there)]
    for harness, request in zip((here, there), requests, strict=True):
        harness.keep(request)

    async def purge_and_follow() -> int:
        other = purges_of(there, store)
        await other.apply_new()
        here.clock.now += 1.0
        purged = await purges_of(here, store).purge(KEY, PurgeScope.FEATURE, "chat")
        there.clock.now += 5.0
        await other.apply_new()
        return purged

    assert asyncio.run(purge_and_follow()) == 1
    assert here.cache.find(requests[0]) is None
    assert there.cache.find(requests[1]) is None


def test_a_process_that_starts_later_knows_of_earlier_purges(store):
    here, later = CacheHarness(), CacheHarness()

    async def purge_and_start() -> None:
        await purges_of(here, store).purge(KEY, PurgeScope.TEAM, "")
        later.clock.now += 600.0
        await purges_of(later, store).apply_new()

    asyncio.run(purge_and_start())
    request = later.request()
    later.keep(request, started=here.clock.now)

    assert later.cache.find(request) is None


def test_a_gateway_knows_of_earlier_purges_before_its_first_call(store, tmp_path):
    file = tmp_path / "policies.toml"
    file.write_text(FILE.format(feature="chat"))

    async def start() -> bool:
        context = fake_app_context(
            Settings(folder=tmp_path, policies=file), store, AppContextCalls()
        )
        async with running_answers(context) as answers:
            assert answers is not None
            return answers.cache.knows_purges

    assert asyncio.run(start())


def test_a_gateway_without_policies_has_no_cache(store, tmp_path):
    async def start() -> None:
        heard = AppContextCalls()
        context = fake_app_context(Settings(folder=tmp_path), store, heard)
        async with running_answers(context) as answers:
            assert answers is None
        assert heard.published == []

    asyncio.run(start())


def test_a_gateway_follows_its_policies(store, tmp_path):
    file = tmp_path / "policies.toml"
    file.write_text(FILE.format(feature="chat"))
    settings = Settings(folder=tmp_path, policies=file)

    async def start() -> tuple[bool, bool]:
        heard = AppContextCalls()
        async with running_answers(fake_app_context(settings, store, heard)) as answers:
            assert answers is not None
            before = answers.cache.covers(call(BODY))
            file.write_text(FILE.format(feature="other"))
            (prepare,) = heard.followed
            commit = await prepare(read_snapshot(settings))
            commit()
            return before, answers.cache.covers(call(BODY))

    assert asyncio.run(start()) == (True, False)
