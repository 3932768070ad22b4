"""One vocabulary for all: it takes a moment to load."""

import pytest

from proxy.tools.replay.prompts import LineVocabulary


@pytest.fixture(scope="session")
def vocabulary() -> LineVocabulary:
    return LineVocabulary()
