import json

import pytest

from dashboards.report_periods import named_period
from proxy.errors import OperatorError
from proxy.services.alerts.webhook import SIGNATURE, TIMESTAMP, signature
from proxy.services.reports.report_content import ReportContent, report_content
from proxy.store.store import Store
from slo.policies.reports import ReportInterval
from tests.fakes.receipts import a_receipt
from tests.fakes.savings import catalog_of_provider, figures_of
from tests.fakes.scheduled_reports import (
    DUE,
    WEEK,
    a_scheduled_report,
    calls_of_two_teams,
    keep,
)

PERIOD = named_period(ReportInterval.WEEK, WEEK, "UTC")


def content(store: Store, **changes: object) -> ReportContent:
    figures = figures_of(store, DUE, catalog_of_provider("acme"))
    return report_content(store, a_scheduled_report(**changes), PERIOD, figures)


def test_a_report_is_of_one_team_and_another_of_all(store: Store) -> None:
    calls_of_two_teams(store)

    assert content(store, team="assistants").read.report.total.cost_nanos == 2 * 10**9 + 2
    assert content(store).read.report.total.cost_nanos == 4 * 10**9 + 6
    assert content(store, team="assistants").mail().subject == f"Costs of assistants, {WEEK}"
    assert content(store).mail().subject == f"Costs of all teams, {WEEK}"


def test_providers_are_those_of_the_catalog(store: Store) -> None:
    calls_of_two_teams(store)

    assert [row.values for row in content(store, by=("provider",)).read.report.rows] == [("acme",)]


def test_a_scheduled_report_can_be_split_by_a_tag(store: Store) -> None:
    tagged = a_receipt(1, team="t", tags=(("customer", "c1"),), cost_nanos=9)
    keep(store, tagged, a_receipt(2, team="t", cost_nanos=2))
    report = content(store, by=("tag:customer",)).read.report

    assert [(row.values, row.sums.cost_nanos) for row in report.rows] == [(("c1",), 9), (("",), 2)]


def test_a_team_that_does_not_exist_is_named(store: Store) -> None:
    with pytest.raises(OperatorError, match="there is no team nobody"):
        content(store, team="nobody")


def test_an_event_has_the_figures_to_nine_digits_and_is_signed(store: Store) -> None:
    calls_of_two_teams(store)
    report = content(store, team="search")
    message = report.event("s3cret", DUE)
    event = json.loads(message.body)

    assert event["type"] == "thriftgate.reports.cost"
    assert event["data"]["total"]["cost_usd"] == "2.000000004"
    assert (event["data"]["team"], event["data"]["period"]) == ("search", WEEK)
    timestamp = message.headers[TIMESTAMP]
    assert message.headers[SIGNATURE] == signature("s3cret", timestamp, message.body)


def test_an_event_that_is_sent_again_has_the_same_id(store: Store) -> None:
    ids = {json.loads(content(store).event("s", time).body)["id"] for time in (DUE, DUE + 99)}
    ids |= {json.loads(content(store, name="other").event("s", DUE).body)["id"]}

    assert len(ids) == 2
