"""A browser before the admin pages, and the whole dashboard over a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.store.store import Store
from tests.fakes.admin_browser import Browser
from tests.fakes.dashboard import Dashboard


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.fixture
def signed_in(browser: Browser) -> Browser:
    assert browser.sign_in().status == 303
    return browser


@pytest.fixture
def policies() -> str:
    """Policies besides the usual ones; a module may have a fixture of its own."""
    return ""


@pytest.fixture
def dashboard(store: Store, tmp_path: Path, policies: str) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path, more_policies=policies)
    yield made
    made.close()
