"""A store of a test's own; and what FastAPI makes for each gateway is made once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.store import Store
from tests.fakes.databases import migrated_sqlite
from tests.fakes.type_adapters import share_type_adapters

share_type_adapters()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal")
    yield store
    store.close(5)
