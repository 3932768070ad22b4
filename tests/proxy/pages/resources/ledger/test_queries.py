from datetime import date

import pytest

from dashboards.access import Role, Viewer
from proxy.errors import CallerError
from proxy.pages.resources.ledger.queries import FilterQuery, PeriodQuery, local_day

NOW = 1_795_687_200.0  # 2026-11-26 10:00 UTC
ANN = Viewer(name="ann", role=Role.VIEWER, own_teams=frozenset({"a"}))


def test_a_period_is_the_last_thirty_days_where_nobody_says() -> None:
    period = PeriodQuery.model_validate({}).period(NOW)

    assert (period.first, period.end) == (date(2026, 10, 28), date(2026, 11, 27))


def test_today_is_the_day_it_is_in_the_time_zone() -> None:
    assert local_day(NOW + 50_000, "UTC") == date(2026, 11, 26)
    assert local_day(NOW + 50_000, "Asia/Kathmandu") == date(2026, 11, 27)
    with pytest.raises(CallerError, match="no such time zone"):
        local_day(NOW, "../etc/passwd")


def test_a_period_may_lie_in_the_future_and_not_be_endless() -> None:
    assert PeriodQuery.model_validate({"from": "2027-01-05"}).period(NOW).end == date(2027, 1, 6)
    with pytest.raises(CallerError, match="at most 3700 days"):
        PeriodQuery.model_validate({"from": "2001-01-01"}).period(NOW)


def test_a_filter_never_widens_what_a_viewer_may_see() -> None:
    only = FilterQuery.model_validate({"team": "b"}).spend_filter(ANN, {})

    assert only.counted_teams == frozenset()


def test_a_provider_is_its_upstreams_and_one_without_is_its_own() -> None:
    providers = {"azure": "openai", "openai": "openai", "lab": "", "acme": "other"}

    def upstreams(provider: str) -> set[str]:
        query = FilterQuery.model_validate({"provider": provider})
        return set(query.spend_filter(ANN, providers).values["upstream"])

    assert upstreams("openai") == {"azure", "openai"}
    assert upstreams("lab") == {"lab"}
    assert upstreams("acme") == set()
    assert upstreams("gone") == {"gone"}
