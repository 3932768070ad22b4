import re
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from slo import wilson
from slo.alert import Severity
from slo.objectives.burn import burn_alerts, max_burn_rate
from slo.objectives.objective import BurnAlert, Enforce, Metric, Objective
from slo.objectives.prometheus_rules import (
    BURN_ALERT_NAME,
    FLOOR_ALERT_NAME,
    TARGET_METRIC,
    lower_bound_expression,
    rule_groups,
)
from tests.examples import examples
from tests.fakes.objectives import objective, objectives
from tests.fakes.promtool import promtool

EVERY = st.lists(objectives(), min_size=1, max_size=3, unique_by=lambda drawn: drawn.name)
P95 = objective(name="chat")
FLOOR = objective(name="floor", metric=Metric.CACHE, target=0.7)


def rules_of(*every: Objective) -> list[dict[str, Any]]:
    (group,) = rule_groups(every)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_rules_file_has_no_groups_without_objectives() -> None:
    assert rule_groups(()) == {"groups": []}


def test_alert_rules_use_only_series_recorded_before() -> None:
    rules = rules_of(P95, FLOOR)
    recorded = [rule["record"] for rule in rules if "record" in rule]
    kinds = ["alert" if "alert" in rule else "record" for rule in rules]
    assert kinds == sorted(kinds, reverse=True)
    for rule in rules:
        used = set(re.findall(r"thriftgate:\w+:\w+", rule["expr"]))
        assert used <= set(recorded)
    assert len(recorded) == len(set(recorded)) + 1  # each objective's target


def test_a_p95_burns_where_its_whole_window_and_the_last_twelfth_do() -> None:
    page = next(rule for rule in rules_of(P95) if rule.get("alert") == BURN_ALERT_NAME)
    labelled = '{objective="chat"}'
    conditions = page["expr"].split("\nand ")
    assert conditions == [
        f"thriftgate:objective_bad:ratio30m{labelled} >= 0.3",
        f"thriftgate:objective_bad:ratio150s{labelled} >= 0.3",
        f"thriftgate:objective_bad:increase30m{labelled} >= 3",
        f"thriftgate:objective_events:increase30m{labelled} >= 20",
        f"thriftgate:objective_bad:lower30m{labelled} > 0.05",
    ]
    labels = {"severity": "page", "over": "30m", "burn": "6", "objective": "chat"}
    assert page["labels"] == labels
    assert page["annotations"] == {
        "summary": "chat: its error budget burns 6 times too fast over 30m",
        "description": "Wanted: p95 of total within 2s. Bad: {{ $value | humanizePercentage }}.",
    }


def test_largest_burn_alerts_where_every_event_is_bad() -> None:
    most = BurnAlert(burn=max_burn_rate(0.1072), over=3600.0, severity=Severity.PAGE)
    (rule,) = (
        rule for rule in rules_of(objective(target=0.1072, alerts=(most,))) if "alert" in rule
    )

    assert most.burn * (1 - 0.1072) > 1
    assert [line.rpartition(" >= ")[2] for line in rule["expr"].split("\nand ")[:2]] == ["1", "1"]


def test_a_share_is_of_all_events_of_all_processes() -> None:
    expressions = {rule["record"]: rule["expr"] for rule in rules_of(P95) if "record" in rule}
    good = "sum by (objective) (increase(thriftgate_objective_good_total[30m]))"
    bad = "sum by (objective) (increase(thriftgate_objective_bad_total[30m]))"
    assert expressions["thriftgate:objective_bad:increase30m"] == bad
    assert expressions["thriftgate:objective_events:increase30m"] == f"{good} + {bad}"
    recorded = "thriftgate:objective_bad:increase30m", "thriftgate:objective_events:increase30m"
    assert expressions["thriftgate:objective_bad:lower30m"] == lower_bound_expression(*recorded)
    assert expressions[TARGET_METRIC] == "vector(0.95)"


def test_no_window_is_too_short_for_prometheus() -> None:
    brief = objective(alerts=(BurnAlert(burn=6.0, over=120.0),))
    windows = {
        window for rule in rules_of(brief) for window in re.findall(r"\[(\w+)\]", rule["expr"])
    }
    assert windows == {"2m"}


def test_alert_of_a_missed_floor_stays_until_it_is_cleared() -> None:
    (rule,) = [rule for rule in rules_of(FLOOR) if rule.get("alert") == FLOOR_ALERT_NAME]
    missed, still = rule["expr"].split("\nor\n")
    assert "increase1h" in missed
    assert " > 0.3\nand " in missed
    assert (
        'ALERTS{alertname="ThriftgateFloorMissed",alertstate="firing",objective="floor"}' in still
    )
    assert "unless" in still
    assert "increase15m" in still
    assert " >= 0.73\nand " in still
    assert "/ 1024)" in missed
    assert rule["labels"] == {"severity": "ticket", "objective": "floor"}


def test_an_observed_objective_has_recording_rules_and_no_alert_rule() -> None:
    rules = rules_of(objective(enforce=Enforce.OBSERVE))
    assert rules
    assert not any("alert" in rule for rule in rules)


def test_a_name_is_text_in_an_expression() -> None:
    rules = rules_of(objective(name='a"\\\nb'))
    assert '{objective="a\\"\\\\\\nb"}' in rules[-1]["expr"]


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_prometheus_reckons_the_same_bound(counts: tuple[int, int]) -> None:
    bad, n = counts
    reckoned = eval(lower_bound_expression("bad", "n"), {"bad": bad, "n": n, "sqrt": sqrt})  # noqa: S307 - ours
    assert reckoned == pytest.approx(wilson.lower_bound(bad, n), abs=1e-9)


@pytest.mark.slow
@given(EVERY)
@examples(21)
def test_every_rule_is_as_prometheus_has_them(every: list[Objective]) -> None:
    rules = rules_of(*every)
    for rule in rules:
        assert ("record" in rule) != ("alert" in rule)
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", rule.get("record") or rule["alert"])
    alert_count = sum(
        1 if drawn.metric is Metric.CACHE else len(burn_alerts(drawn))
        for drawn in every
        if drawn.enforce is not Enforce.OBSERVE
    )
    assert sum("alert" in rule for rule in rules) == alert_count
    assert yaml.safe_load(yaml.safe_dump(rule_groups(every))) == rule_groups(every)


BOTH_IN_AN_HOUR = tuple(BurnAlert(burn=burn, over=3600.0) for burn in (6.0, 12.0))
BRACES = objective(name='a "{{ $x }}" \\ b')


@pytest.mark.parametrize(
    "every",
    [
        pytest.param((P95, FLOOR), id="a p95 and a floor"),
        pytest.param((P95, objective(name="other"), FLOOR), id="two of one target"),
        pytest.param((objective(alerts=BOTH_IN_AN_HOUR),), id="two alerts of one window"),
        pytest.param((BRACES,), id="a name that looks like a template"),
        pytest.param((), id="none"),
    ],
)
def test_promtool_has_no_warning_for_exported_rules(
    tmp_path: Path, every: tuple[Objective, ...]
) -> None:
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump(rule_groups(every)))

    ran = promtool("check", "rules", "--lint=all", "--lint-fatal", file)

    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_name_is_text_in_an_annotation() -> None:
    (rule, *_) = [rule for rule in rules_of(BRACES) if "alert" in rule]

    assert rule["annotations"]["summary"].startswith('a "{{ "{{" }} $x }}" \\ b: its error')


@pytest.mark.parametrize(("bad", "alerts"), [(2, 0), (50, 1)])
def test_the_page_of_half_an_hour_fires_when_the_budget_burns_and_not_before(
    tmp_path: Path, bad: int, alerts: int
) -> None:
    """A hundred calls a minute, of which so many are bad for three quarters of an hour."""
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rule_groups((P95,))))
    firing = 'count(ALERTS{over="30m", alertstate="firing"}) or vector(0)'
    name = 'thriftgate_objective_{}_total{{objective="chat"}}'
    series = [
        {"series": name.format("good"), "values": f"0+98x60 {60 * 98}+{100 - bad}x45"},
        {"series": name.format("bad"), "values": f"0+2x60 {60 * 2}+{bad}x45"},
    ]
    story = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": firing,
                        "eval_time": when,
                        "exp_samples": [{"labels": "{}", "value": alerts if when == "105m" else 0}],
                    }
                    for when in ("60m", "105m")
                ],
            }
        ],
    }
    (tmp_path / "story.yml").write_text(yaml.safe_dump(story))

    ran = promtool("test", "rules", tmp_path / "story.yml")

    assert ran.returncode == 0, ran.stdout + ran.stderr
