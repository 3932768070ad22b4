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


def test_a_redis_url_without_the_client_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(ValueError, match=r"thriftgate\[redis\]"):
        check_counters(Settings(redis_url="redis://cache:6379/0"))
    check_counters(Settings())
