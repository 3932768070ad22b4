"""One vocabulary for all: it takes a moment to load."""

import pytest

from proxy.tools.replay.vocabulary import Lines


@pytest.fixture(scope="session")
def vocabulary() -> Lines:
    return Lines()
