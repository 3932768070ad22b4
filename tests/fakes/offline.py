"""A store whose database is away since it was opened, and can be had back."""

import asyncio
from pathlib import Path

import msgspec

from proxy.records.feature_mode import PlanningMode
from proxy.store.sql.access.known_keys import KnownKeys
from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite


def offline_store(folder: Path) -> tuple[Store, str]:
    """The store, with tables already if it is connected, and a key that it knows."""
    url = migrated_sqlite(folder / "thriftgate.db")
    before = Store.open(url, folder / "journal")
    team = before.teams.create("support", now=1.0)
    _, key = before.teams.create_key(team.id, "", now=1.0)
    assert asyncio.run(before.keyring.fetch(key)) is not None
    keys = KnownKeys(
        database="",
        confirmed_at=1.0,
        secret=before.secret,
        teams=1,
        keys=msgspec.Raw(msgspec.json.encode(list(before.keyring.cached_keys().items()))),
    )
    before.close(10)
    return Store.open_offline(url, folder / "journal", PlanningMode.AUTO, keys), key
