"""Answers in a real Redis: found until they end, and bounded by bytes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from proxy.store.errors import StoreError
from proxy.store.redis.answer_store import RedisAnswers
from tests.fakes.redis_keys import SERVER
from tests.fakes.redis_server import ABSENT, PROGRAM, OwnRedis

pytestmark = pytest.mark.anyio


@pytest.fixture
async def answers(redis_prefix: str) -> AsyncIterator[RedisAnswers]:
    store = RedisAnswers(SERVER, "acme", 1_000, prefix=redis_prefix)
    yield store
    await store.aclose()


async def test_an_answer_is_found_by_every_process_until_it_ends(
    answers: RedisAnswers, redis_prefix: str
) -> None:
    other = RedisAnswers(SERVER, "acme", 1_000, prefix=redis_prefix)
    await answers.put("k", b"answer", 0.2)
    found = [await other.get("k"), await other.get("other")]
    await asyncio.sleep(0.3)
    found.append(await other.get("k"))
    await other.aclose()

    assert found == [b"answer", None, None]


async def test_another_organisation_finds_nothing(answers: RedisAnswers, redis_prefix: str) -> None:
    other = RedisAnswers(SERVER, "other", 1_000, prefix=redis_prefix)
    await answers.put("k", b"answer", 60.0)
    found = await other.get("k")
    await other.aclose()

    assert found is None


async def test_answers_that_end_first_go_where_all_take_too_much(answers: RedisAnswers) -> None:
    for number in range(12):
        taken = await answers.put(str(number), b"x" * 100, 60.0 + number)
        assert taken <= 1_000

    kept = [number for number in range(12) if await answers.get(str(number)) is not None]
    assert kept == list(range(2, 12))


async def test_a_newer_answer_of_a_key_counts_once(answers: RedisAnswers) -> None:
    await answers.put("k", b"x" * 600, 60.0)

    assert await answers.put("k", b"x" * 500, 60.0) == 500
    assert await answers.get("k") == b"x" * 500


async def test_answers_that_ended_free_their_bytes(answers: RedisAnswers) -> None:
    await answers.put("short", b"x" * 600, 0.05)
    await asyncio.sleep(0.1)

    assert await answers.put("k", b"x" * 500, 60.0) == 500


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
async def test_a_redis_that_does_not_answer_is_given_up_soon(tmp_path: Path) -> None:
    server = OwnRedis(tmp_path)
    server.start()
    store = RedisAnswers(server.url, "acme", 1_000)
    await store.put("k", b"a", 60.0)
    server.hold_up()
    try:
        with pytest.raises(StoreError):
            await store.get("k")
    finally:
        server.go_on()
        server.kill()
    with pytest.raises(StoreError):
        await store.put("k", b"a", 60.0)
    await store.aclose()
