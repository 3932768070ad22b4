"""Rules on budgets and caches, as Prometheus evaluates them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from slo.budgets.budget import Budget, BudgetUnit
from slo.objectives.prometheus_spend_rules import (
    BUDGET_ALERT_NAME,
    DRIFT_ALERT_NAME,
    HIT_RATE_ALERT_NAME,
    WRITES_ALERT_NAME,
    spend_groups,
)
from slo.window import Window
from tests.fakes.promtool import promtool

DAY = Budget(
    name="day", scope="team", unit=BudgetUnit.USD, window=Window.DAY, limit=10**11, hard=True
)


def expect_evaluation(
    folder: Path, series: dict[str, str], expected: dict[str, tuple[str, int]]
) -> None:
    """Prometheus' evaluation of alerts firing: each expression's time and value."""
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": spend_groups((DAY,))}))
    checks: list[dict[str, Any]] = [
        {"expr": expr, "eval_time": time, "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, (time, value) in expected.items()
    ]
    story = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": s, "values": v} for s, v in series.items()],
                "promql_expr_test": checks,
            }
        ],
    }
    (folder / "story.yml").write_text(yaml.safe_dump(story))

    ran = promtool("test", "rules", folder / "story.yml")

    assert ran.returncode == 0, ran.stdout + ran.stderr


def firing_count(alert: str, **labels: str) -> str:
    matchers = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f'count(ALERTS{{alertname="{alert}",alertstate="firing"{matchers}}}) or vector(0)'


@pytest.mark.parametrize(
    "budgets", [(), (DAY,), (Budget(name='a "{{ $x }}" \\ b', scope="key", unit=BudgetUnit.TOKENS,
                              window=Window.DAY, limit=5),)]
)  # fmt: skip
def test_promtool_has_no_warning(tmp_path, budgets):
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": spend_groups(budgets)}))

    ran = promtool("check", "rules", "--lint=all", "--lint-fatal", file)

    assert (ran.returncode, ran.stderr) == (0, b"")


def test_two_budgets_with_equal_percents_have_rules_that_differ(tmp_path):
    rules = yaml.safe_dump(
        {"groups": spend_groups((DAY, msgspec.structs.replace(DAY, name="week")))}
    )
    (tmp_path / "rules.yml").write_text(rules)

    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yml")

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_budget_alerts_at_the_highest_percent_that_it_has_reached(tmp_path):
    name = 'thriftgate_budget_fullest_ratio{budget="day",unit="usd",instance="%s"}'

    expect_evaluation(
        tmp_path,
        {
            name % "a": "0.1x10 0.83x10 0.97x10 0.02x10",
            name % "b": "0.1x10 0.82x10 0.96x10 0.02x10",
        },
        {
            firing_count(BUDGET_ALERT_NAME): ("5m", 0),
            firing_count(BUDGET_ALERT_NAME, percent="80", severity="ticket"): ("15m", 1),
            firing_count(BUDGET_ALERT_NAME, percent="95", severity="page"): ("28m", 1),
            firing_count(BUDGET_ALERT_NAME, budget="day"): ("28m", 1),
            firing_count(BUDGET_ALERT_NAME, unit="usd"): ("40m", 0),
        },
    )


def test_counters_that_lack_a_twentieth_for_a_quarter_of_an_hour_are_an_alert(tmp_path):
    of = '{budget="day",unit="usd"}'

    expect_evaluation(
        tmp_path,
        {f"thriftgate_budget_limit{of}": "100x60", f"thriftgate_budget_drift{of}": "0x9 6x50"},
        {
            firing_count(DRIFT_ALERT_NAME): ("20m", 0),
            firing_count(DRIFT_ALERT_NAME, budget="day"): ("30m", 1),
        },
    )


@pytest.mark.parametrize(("read", "alerts"), [(800, 0), (100, 1)])
def test_a_hit_rate_that_falls_to_under_half_of_the_day_before_is_an_alert(tmp_path, read, alerts):
    """A feature sends 10,000 prompt tokens a minute, of which 8,000 are read; then it changes."""
    of = 'thriftgate_tokens_total{team="a",feature="chat",bucket="%s"}'
    day, later = 24 * 60, 120

    expect_evaluation(
        tmp_path,
        {
            of % "cache_read": f"0+8000x{day} {8000 * day}+{read * 10}x{later}",
            of % "input": f"0+2000x{day} {2000 * day}+{10_000 - read * 10}x{later}",
        },
        {
            firing_count(HIT_RATE_ALERT_NAME): (f"{day - 5}m", 0),
            firing_count(HIT_RATE_ALERT_NAME, feature="chat"): (f"{day + 90}m", alerts),
        },
    )


@pytest.mark.parametrize(("hit_rate", "alerts"), [(0.18, 0), (0.22, 1)])
def test_a_hit_rate_that_falls_from_under_a_fifth_is_no_alert(tmp_path, hit_rate, alerts):
    of = 'thriftgate_tokens_total{team="a",feature="chat",bucket="%s"}'
    day, later, read = 24 * 60, 120, round(10_000 * hit_rate)

    expect_evaluation(
        tmp_path,
        {
            of % "cache_read": f"0+{read}x{day} {read * day}+0x{later}",
            of % "input": f"0+{10_000 - read}x{day} {(10_000 - read) * day}+10000x{later}",
        },
        {firing_count(HIT_RATE_ALERT_NAME, feature="chat"): (f"{day + 90}m", alerts)},
    )


@pytest.mark.parametrize(("read", "alerts"), [(1000, 0), (100, 1)])
def test_writes_that_are_hardly_read_are_an_alert(tmp_path, read, alerts):
    of = 'thriftgate_tokens_total{team="a",feature="chat",bucket="%s"}'

    expect_evaluation(
        tmp_path,
        {of % "cache_read": f"0+{read}x500", of % "cache_write": "0+1000x500"},
        {firing_count(WRITES_ALERT_NAME, feature="chat"): ("450m", alerts)},
    )


def test_rules_of_caches_are_there_without_budgets_and_labels_have_no_rule():
    label = Budget(name="l", scope="label:x", unit=BudgetUnit.USD, window=Window.DAY, limit=1)

    assert [group["name"] for group in spend_groups((label,))] == ["thriftgate-caches"]
