"""Levels of budgets on the metrics page."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from proxy.services.budgets.budget_metrics import BudgetLevel, level_metrics
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window

DAY = Budget(name="day", scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=50_000_000_000)
CALLS = Budget(name="calls", scope="key", unit=BudgetUnit.REQUESTS, window=Window.DAY, limit=400)


def page(levels: dict[Budget, BudgetLevel]) -> list[str]:
    class ShownMetrics(Collector):
        def collect(self):
            return level_metrics(levels)

    registry = CollectorRegistry()
    registry.register(ShownMetrics())
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_dollars_are_shown_as_dollars_and_a_ratio_is_of_one_counters_limit():
    levels = {
        DAY: BudgetLevel(drift=-500_000_000, spent=60_000_000_000, fullest=40_000_000_000),
        CALLS: BudgetLevel(drift=0, spent=100, fullest=100),
    }

    assert set(page(levels)) == {
        'thriftgate_budget_limit{budget="day",unit="usd"} 50.0',
        'thriftgate_budget_spent{budget="day",unit="usd"} 60.0',
        'thriftgate_budget_drift{budget="day",unit="usd"} -0.5',
        'thriftgate_budget_fullest_ratio{budget="day",unit="usd"} 0.8',
        'thriftgate_budget_limit{budget="calls",unit="requests"} 400.0',
        'thriftgate_budget_spent{budget="calls",unit="requests"} 100.0',
        'thriftgate_budget_drift{budget="calls",unit="requests"} 0.0',
        'thriftgate_budget_fullest_ratio{budget="calls",unit="requests"} 0.25',
    }


def test_without_a_comparison_there_are_no_series():
    assert page({}) == []
