from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.store import Store
from tests.fakes.scheduled_reports import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a migrated database."""
    opened = open_store(tmp_path)
    yield opened
    opened.close(5)
