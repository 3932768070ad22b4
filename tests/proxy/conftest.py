"""What tests of planning share: a store of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    yield store
    store.close(5)
