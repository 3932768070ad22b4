import pytest

from dashboards import formatting
from dashboards.savings_headline import (
    MeasuredShare,
    SavingsSums,
    count_planning,
    savings_headline,
)
from dashboards.views.alerts import AlertCalls
from dashboards.views.cache_health import MissReasonSums
from dashboards.views.latency import HealthWindow
from slo.budgets.budget import BudgetUnit
from tests.fakes.board import a_rerouted_call, an_objective


def test_a_time_is_told_to_the_second_in_utc():
    assert formatting.clock_time(1_790_000_000.9) == "2026-09-21 14:13:20"
    assert formatting.iso_time(1_790_000_000.9) == "2026-09-21T14:13:20Z"


@pytest.mark.parametrize(
    ("verdicts", "errors", "headline"),
    [
        (["ok", "ok"], 0, ("good", "2 of 2 ok")),
        (["ok", "no data"], 0, ("good", "1 of 2 ok")),
        (["ok", "at risk"], 0, ("warn", "1 of 2 at risk")),
        (["missed", "at risk"], 2, ("bad", "1 of 2 missed")),
        (["ok", "ok"], 40, ("bad", "40.0 % errors")),
        ([], 0, ("good", "Calls are answered")),
    ],
)
def test_health_is_never_good_while_calls_fail_or_objectives_are_missed(verdicts, errors, headline):
    objectives = [an_objective(verdict=verdict) for verdict in verdicts]
    recent = HealthWindow(since=0, calls=100, errors=errors, p95=None)

    assert formatting.health_headline((objectives, recent))[:2] == headline


def test_health_without_calls_is_not_called_good():
    recent = HealthWindow(since=0, calls=0, errors=0, p95=None)

    assert formatting.health_headline(([], recent))[:2] == ("", "No calls")
    assert formatting.health_headline(([], None))[:2] == ("", "?")
    assert formatting.health_headline(([an_objective(verdict="ok")], None))[1] == "1 of 1 ok"


def test_a_span_has_the_two_largest_units():
    assert formatting.duration_text(7_265) == "2 h 1 min"


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (None, "?"),
        (0, "$0"),
        (1, "$0.000000001"),
        (999, "$0.000000999"),
        (1_234_567, "$0.001235"),
        (-1_234_567, "\N{MINUS SIGN}$0.001235"),
        (-5, "\N{MINUS SIGN}$0.000000005"),
        (1_500_000_000, "$1.5"),
        (1_234_567_891_234_567, "$1,234,567.891235"),
    ],
)
def test_money_is_told_as_close_as_anybody_reads(nanos, text):
    assert formatting.money(nanos) == text


def test_a_budgets_amount_is_shown_in_its_unit():
    assert formatting.unit_amount(1_500_000_000, BudgetUnit.USD) == "$1.5"
    assert formatting.unit_amount(12_345, BudgetUnit.TOKENS) == "12,345"
    assert formatting.unit_amount(None, BudgetUnit.REQUESTS) == "?"


@pytest.mark.parametrize(
    ("part", "whole", "text"), [(1, 3, "33.3 %"), (None, 3, "?"), (1, 0, "?"), (4, 2, "200.0 %")]
)
def test_a_share_is_told_in_percent(part, whole, text):
    assert formatting.share(part, whole) == text


def test_an_empty_name_is_shown_in_words():
    assert [formatting.feature_name(name) for name in ("*", "", "chat")] == [
        "every feature",
        "(none)",
        "chat",
    ]
    assert [formatting.subject_name(name) for name in ("*", "", "acme")] == [
        "everyone",
        "(none named)",
        "acme",
    ]
    assert [formatting.level_name(name) for name in ("", "small")] == ["as asked", "small"]


@pytest.mark.parametrize(
    ("outcome", "error", "text"),
    [
        ("answered", "", ""),
        ("refused", "budget_exceeded", "refused: budget exceeded"),
        ("failed", "", "failed"),
        ("broken", "upstream_stalled", "broke off: upstream stalled"),
        ("hung_up", "", "the caller left"),
    ],
)
def test_the_ending_of_a_rerouted_call_is_shown_unless_it_was_answered(outcome, error, text):
    assert formatting.call_ending(a_rerouted_call(outcome=outcome, error=error)) == text


def test_a_negative_part_has_a_minus_sign():
    assert formatting.percentage(-0.193) == "\N{MINUS SIGN}19.3 %"
    assert formatting.exact_usd(-1) == "\N{MINUS SIGN}$0.000000001"
    assert formatting.seconds(None) == "\N{EN DASH}"


def test_an_unknown_price_is_not_shown_as_free():
    assert (formatting.call_price(None), formatting.call_price(0)) == ("no known price", "$0")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"burn": 1.0}, "within its error budget"),
        ({"burn": 1.5}, "not missed beyond chance"),
        ({"burn": None}, "not missed beyond chance"),  # a floor has no error budget
        ({"counted": 0}, ""),
        (
            {"why": "The pin to fallback level 1 has ended."},
            "The pin to fallback level 1 has ended.",
        ),
        ({"state": "pinned"}, ""),
    ],
)
def test_a_healthy_objective_says_whether_it_keeps_its_error_budget(fields, text):
    healthy = {"state": "healthy", "level": 0, "why": ""}

    assert formatting.objective_reason(an_objective(**(healthy | fields))) == text


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (None, "?"),
        (0, "$0.00"),
        (1_234_560_000_000, "$1,234.56"),
        (12_300_000, "$0.0123"),
        (999_600_000, "$1.00"),
        (-2_500_000_000, "\N{MINUS SIGN}$2.50"),
        (7, "$0.00000000700"),
    ],
)
def test_dollars_are_read_at_a_glance(nanos: int | None, shown: str) -> None:
    assert formatting.usd(nanos) == shown


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        ((150, 100), "+50 %"),
        ((50, 100), "\N{MINUS SIGN}50 %"),
        ((1_300, 10), "+12,900 %"),
        ((5, 0), "new"),
        ((0, 0), "0 %"),
        ((None, 5), "?"),
    ],
)
def test_a_change_has_its_sign(amounts: tuple[int | None, int | None], shown: str) -> None:
    assert formatting.change(amounts) == shown


def a_reason(team: str, feature: str, reason: str) -> MissReasonSums:
    return MissReasonSums(
        team=team,
        team_name=team,
        feature=feature,
        reason=reason,
        attempts=1,
        tokens=1,
        nanos=1,
        fix="",
        example="call_1",
    )


def test_buckets_are_named_in_their_time_zone() -> None:
    start = 1_790_028_000  # 2026-09-21 22:00 UTC
    assert formatting.bucket_name(start, "Europe/Berlin", "day") == "2026-09-22"
    assert formatting.bucket_name(start, "UTC", "hour") == "2026-09-21 22:00"
    assert formatting.local_iso(start, "Europe/Berlin") == "2026-09-22T00:00:00"


def test_a_parameter_is_changed_added_or_left_out() -> None:
    params = {"by": "team", "tz": "UTC"}
    assert formatting.with_params(params, by="model", team="a b") == "by=model&tz=UTC&team=a+b"
    assert formatting.with_params(params, tz="") == "by=team"


def test_values_have_the_names_that_rows_give_them() -> None:
    rows = [a_rerouted_call(call_id="1", team="a"), a_rerouted_call(call_id="2", team="b")]

    assert formatting.names_of(rows, "call_id", "team") == {"1": "a", "2": "b"}


def test_the_first_reason_of_each_feature_is_found() -> None:
    rows = [a_reason("a", "x", "expired"), a_reason("a", "x", "moved"), a_reason("b", "x", "new")]
    result = formatting.first_by_feature(rows)

    assert {place: item.reason for place, item in result.items()} == {
        ("a", "x"): "expired",
        ("b", "x"): "new",
    }


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "?"), (950, "950"), (12_345, "12.3 k"), (4_500_000, "4.5 M"), (3_100_000_000, "3.1 B")],
)
def test_tokens_are_read_at_a_glance(count: int | None, shown: str) -> None:
    assert formatting.tokens(count) == shown


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (1_234_567_890_000, "$1,234.57"),
        (610_000_000, "$0.61"),
        (-610_000_000, "\N{MINUS SIGN}$0.61"),
        (13_600_000, "$0.0136"),
        (None, "?"),
    ],
)
def test_dollars_are_cents_from_ten_cents_on(nanos: int | None, text: str) -> None:
    assert formatting.dollars(nanos) == text


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (None, ""),
        (0, "0"),
        (-1_500_000_000, "-1.5"),
        (98_765_432_123_456_789, "98765432.123456789"),
    ],
)
def test_amounts_of_charts_keep_every_nano_dollar(nanos: int | None, text: str) -> None:
    assert formatting.chart_usd(nanos) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [(-0.1512, "−15 %"), (0.033, "+3.3 %"), (0.0, "±0 %"), (-0.0001, "±0 %"), (None, "?")],  # noqa: RUF001
)
def test_signed_percents_have_a_decimal_below_ten(change: float | None, text: str) -> None:
    assert formatting.signed_percent(change) == text


def test_a_sparkline_fills_its_box_and_counts_the_unknown_as_nothing():
    assert formatting.spark_points([0, None, 10]) == "0.0,23.0 50.0,23.0 100.0,1.0"
    assert formatting.spark_points([0, 0]) == "0.0,23.0 100.0,23.0"
    assert formatting.spark_points([-1, 1]) == "0.0,23.0 100.0,1.0"
    assert formatting.spark_points([]) == ""


def test_usual_periods_end_today_in_the_zone_or_with_the_last_month():
    one_o_clock_in_tokyo = 1_790_009_000.0  # 2026-09-21 16:43 UTC
    periods = {
        name: days for name, *days in formatting.period_presets(one_o_clock_in_tokyo, "Asia/Tokyo")
    }

    assert periods["Today"] == ["2026-09-22", "2026-09-22"]
    assert periods["7 days"] == ["2026-09-16", "2026-09-22"]
    assert periods["This month"] == ["2026-09-01", "2026-09-22"]
    assert periods["Last month"] == ["2026-08-01", "2026-08-31"]


def test_a_saving_says_its_interval_and_the_part_of_spend_that_was_measured() -> None:
    dollar = 10**9
    estimated = SavingsSums(cost_nanos=100 * dollar, planned_cost_nanos=80 * dollar)
    measured = count_planning(estimated, MeasuredShare(0.5, 0.4, 0.6))
    rest = SavingsSums(cost_nanos=25 * dollar)

    assert formatting.how_sure(savings_headline(measured.plus(rest))) == (
        "95 %: $53.33\N{EN DASH}$120.00, measured by control arms on 80.0 % of spend"
    )
    assert formatting.how_sure(savings_headline(estimated)) == (
        "Estimated; no control arm has measured it yet"
    )


@pytest.mark.parametrize(
    ("nanos", "text"),
    [(-(10**9), "saved $1.00"), (2 * 10**9, "cost $2.00 more"), (0, "$0.00")],
)
def test_a_step_of_the_waterfall_has_no_sign(nanos: int, text: str) -> None:
    assert formatting.step_change(nanos) == text


def test_a_month_has_its_name() -> None:
    assert formatting.month_name("2026-12") == "December"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (20, "just now"),
        (5 * 60, "5 min ago"),
        (2 * 3600 + 60, "2 h ago"),
        (3 * 86_400, "3 d ago"),
        (-7200, "in 2 h"),
        (30 * 86_400, "22 Aug 2026"),
    ],
)
def test_a_time_is_beside_now_and_a_day_from_a_week_on(seconds: float, text: str) -> None:
    now = 1_790_000_000.0

    assert formatting.ago(now - seconds, now) == text


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Chrome/156.0.0.0 Safari/537.36", "Chrome 156 on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/5 Edg/140.0", "Edge 140 on Windows"),
        ("Mozilla/5.0 (Macintosh; Mac OS X) Version/18.1 Safari/6", "Safari 18 on Mac OS X"),
        ("curl/8.1", "curl/8.1"),
    ],
)
def test_a_browser_is_named_with_its_system(agent: str, name: str) -> None:
    assert formatting.browser_name(agent) == name


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        (None, "Its calls"),
        (AlertCalls(count=1), "Its 1 call"),
        (AlertCalls(count=1_200), "Its 1,200 calls"),
        (AlertCalls(count=7, among=50_000), "Its 7 calls among the newest 50,000 attempts"),
    ],
)
def test_calls_of_an_alert_are_said_with_what_was_looked_at(
    calls: AlertCalls | None, text: str
) -> None:
    assert formatting.counted_calls(calls) == text
