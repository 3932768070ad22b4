"""Fixtures of the simulator's tests: a vocabulary, and a simulator that never waits."""

import pytest

from proxy.tools.simulator.models import MODELS, SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.proxy.tools.simulator.scene import SimulatorHarness


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary()


@pytest.fixture
def scene(vocabulary: Vocabulary) -> SimulatorHarness:
    return SimulatorHarness(vocabulary)


@pytest.fixture
def context(vocabulary: Vocabulary) -> ReadingContext:
    return ReadingContext(vocabulary, MODELS["gpt-6.1-sol"], "sk")


@pytest.fixture
def older(vocabulary: Vocabulary) -> ReadingContext:
    """An Anthropic model that takes what the newer ones refuse."""
    return ReadingContext(vocabulary, MODELS["claude-haiku-4-5"], "sk")


@pytest.fixture
def newer(vocabulary: Vocabulary) -> ReadingContext:
    return ReadingContext(vocabulary, MODELS["claude-sonnet-5-5"], "sk")


@pytest.fixture
def model() -> SimulatedModel:
    return MODELS["gpt-6.1-sol"]
