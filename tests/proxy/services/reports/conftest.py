from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.store import Store
from tests.fakes.scheduled_reports import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a migrated database."""
    made = open_store(tmp_path)
    yield made
    made.close(5)
