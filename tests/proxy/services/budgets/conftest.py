import pytest

from slo.budgets.budget import Budget
from tests.fakes.reconciliation_harness import ReconciliationHarness


@pytest.fixture
def make_harness(tmp_path):
    harnesses: list[ReconciliationHarness] = []

    def make(*budgets: Budget) -> ReconciliationHarness:
        harnesses.append(ReconciliationHarness(tmp_path, *budgets))
        return harnesses[0]

    yield make
    for harness in harnesses:
        harness.store.close(5)


@pytest.fixture
def harness(make_harness):
    return make_harness()
