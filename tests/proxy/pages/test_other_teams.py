"""Members of a team before pages and API: filters and paths of another team show nothing of it."""

import json
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from dashboards.access import Role
from proxy.pages.resources.api import API_PATH
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard, fill_path
from tests.fakes.receipts import a_receipt
from tests.proxy.pages.test_every_route import ROUTES

_FEATURE: Final = "their plans"
#: Texts of the other team's receipts that no request has.
_HIDDEN: Final = ("hidden-model", "hidden-key", "hidden-user", "hidden-tag", "hidden-error")


@pytest.fixture
def their_call(dashboard: Dashboard) -> str:
    """The id of a call of another team, with a miss, a tag and an error."""
    receipt = a_receipt(
        team=dashboard.other,
        call_id=f"call_{int(NOW - 60) * 1_000:012x}7{'a' * 19}",
        feature=_FEATURE,
        model="hidden-model",
        route="lab/hidden-model",
        key_id="hidden-key",
        user="hidden-user",
        tags=(("region", "hidden-tag"),),
        error="hidden-error",
        started=NOW - 60,
        conversation="c" * 32,
        miss="expired",
        expected_read=1_000,
    )
    assert inserter(dashboard.store._engine)([receipt]) is None
    return receipt.call_id


def queries(dashboard: Dashboard) -> list[dict[str, str]]:
    """Questions for what the other team did, each by another filter."""
    filters: list[dict[str, str]] = [
        {},
        {"team": dashboard.other},
        {"team": dashboard.other, "feature": _FEATURE},
        {"feature": _FEATURE},
        {"team": dashboard.other, "tag": "region:(none)"},
    ]
    dimensions = ("feature", "model", "key", "user", "tag:region", "model,key,tag:region")
    return filters + [{"team": dashboard.other, "by": by} for by in dimensions]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN])
def test_filters_and_paths_of_another_team_show_nothing_of_it(
    dashboard: Dashboard, their_call: str, role: Role
) -> None:
    leaks = []
    for endpoint in dashboard.endpoints():
        if not endpoint.is_safe or ROUTES[endpoint.method, endpoint.path][0] is None:
            continue
        names = {"team": dashboard.other, "feature": quote(_FEATURE), "call_id": their_call}
        path = fill_path(endpoint.path, **names, key="hidden-ke")
        for query in queries(dashboard):
            body = dashboard.ask_as(role, "GET", f"{path}?{urlencode(query)}").body.decode()
            leaks += [(path, query, text) for text in _HIDDEN if text in body]

    assert leaks == []


@pytest.mark.parametrize("page", ["costs", "reports", "reports/print", "calls", "savings", "now"])
def test_filter_by_the_id_of_another_team_does_not_tell_its_name(
    dashboard: Dashboard, page: str
) -> None:
    teams, key = dashboard.store.teams, "hidden key"
    hidden = teams.create("Hidden Team", now=NOW).id
    filters = {"team": hidden, "key": teams.create_key(hidden, key, now=NOW)[0].id}
    for role in (Role.VIEWER, Role.TEAM_ADMIN):
        answer = dashboard.ask_as(role, "GET", f"/admin/{page}?{urlencode(filters)}")
        assert not [name for name in ("Hidden Team", key) if name in answer.body.decode()]


def test_an_administrator_sees_what_members_of_other_teams_do_not(
    dashboard: Dashboard, their_call: str
) -> None:
    query = urlencode({"team": dashboard.other, "by": "model,key,user,tag:region"})
    page = dashboard.ask_as(Role.ADMIN, "GET", f"/admin/reports?{query}").body.decode()
    call: dict[str, Any] = json.loads(
        dashboard.ask_as(Role.ADMIN, "GET", f"{API_PATH}/calls/{their_call}").body
    )

    assert all(text in page for text in _HIDDEN[:-1])
    assert "hidden-error" in json.dumps(call)
