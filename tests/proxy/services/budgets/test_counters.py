"""Tests of where budgets are counted, by the settings."""

import asyncio
import sys

import pytest

from proxy.services.budgets.counters import check_counters, open_budget_store, redis_problem
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite


def test_a_redis_url_of_another_form_is_an_error():
    with pytest.raises(ValueError, match="redis://"):
        check_counters(Settings(redis_url="cache:6379"))
    check_counters(Settings(redis_url="redis://cache:6379/0"))
    check_counters(Settings())


def test_counters_are_shared_where_redis_is_named(tmp_path):
    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    try:
        assert open_budget_store(Settings(redis_url="redis://cache:6379/0"), opened).is_shared
        assert not open_budget_store(Settings(), opened).is_shared
    finally:
        opened.close(5)


def test_a_redis_that_does_not_answer_is_away_and_its_password_is_not_shown():
    why = asyncio.run(redis_problem(Settings(redis_url="redis://:secret@127.0.0.1:1/0")))

    assert why
    assert "secret" not in why
    assert asyncio.run(redis_problem(Settings())) == ""


async def test_a_redis_that_says_nothing_is_away_after_a_second():
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        port = silent.sockets[0].getsockname()[1]
        why = await redis_problem(Settings(redis_url=f"redis://127.0.0.1:{port}/0"))

    assert why == "Redis did not answer within 1.0 s"


def test_a_redis_url_without_the_client_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(ValueError, match=r"thriftgate\[redis\]"):
        check_counters(Settings(redis_url="redis://cache:6379/0"))
    check_counters(Settings())
