"""Tests of what replicas share of objectives, by the settings."""

from proxy.services.objectives.setup import open_objective_counters
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite


def test_objectives_are_shared_only_where_redis_is_named(tmp_path):
    opened = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    try:
        assert open_objective_counters(
            Settings(redis_url="redis://cache:6379/0"), opened, float
        ).is_shared
        assert not open_objective_counters(Settings(), opened, float).is_shared
    finally:
        opened.close(5)
