"""Pages before odd queries and forms: they say what is wrong, and never meet a bug."""

import json
import random
from typing import Final
from urllib.parse import urlencode

import pytest

from dashboards.access import Role
from proxy.pages.resources.api import API_PATH
from tests.fakes.board import CALL
from tests.fakes.dashboard import Dashboard, PageEndpoint, fill_path
from tests.proxy.pages.test_every_route import ROUTES

#: Requests to each page.
_EXAMPLES: Final = 12
_ODD: Final = (
    *(
        "",
        " ",
        "x",
        "0",
        "-1",
        "1e999",
        "9" * 40,
        "NaN",
        "true",
        "null",
        "\x00",
        "\ud7ff",
        "a" * 1_200,
    ),
    *("(none)", "(others)", "tag:region", "tag:", "region:north", "team,feature", "team,team"),
    *(
        "2026-02-30",
        "0001-01-01",
        "9999-12-31",
        "2026-11-01",
        "Europe/Berlin",
        "UTC",
        "15m",
        "hour",
    ),
    *("'; DROP TABLE calls; --", "<b>", "%", "{}", "[1]", "../..", "ttft", "failed", "csv", "1.4"),
)


@pytest.fixture
def parameters(dashboard: Dashboard) -> list[str]:
    """All names that the API's document has for parameters, which are those of pages."""
    document = json.loads(dashboard.ask("GET", f"{API_PATH}/openapi.json").body)
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = {one["name"] for operation in operations for one in operation.get("parameters", ())}
    return sorted(names | {"window", "live", "sort", "page", "columns", "next", "unpriced"})


def status(dashboard: Dashboard, endpoint: PageEndpoint, fields: dict[str, str]) -> int:
    """The status that a page answers an administrator with."""
    path = fill_path(endpoint.path, team=dashboard.own, call_id=CALL, name="admin.css")
    cookie = dashboard.cookies[Role.ADMIN]
    if endpoint.is_safe:
        return dashboard.ask("GET", f"{path}?{urlencode(fields)}", cookie=cookie).status
    return dashboard.ask(endpoint.method, path, cookie=cookie, document=fields).status


@pytest.mark.slow
def test_no_odd_query_or_form_meets_a_bug_of_a_page(
    dashboard: Dashboard, parameters: list[str]
) -> None:
    numbers = random.Random(39)  # noqa: S311 - a test's own
    bugs = []
    for endpoint in dashboard.endpoints():
        if not endpoint.is_page or endpoint.path.endswith(("/sign-out", "/password")):
            continue
        _, usual = ROUTES[endpoint.method, endpoint.path]
        for _ in range(_EXAMPLES):
            names = list(usual or ()) if not endpoint.is_safe else []
            chosen = names + numbers.sample(parameters, numbers.randrange(4))
            fields = {
                name: usual[name]
                if usual and name in usual and numbers.random() < 1 / 2
                else numbers.choice(_ODD)
                for name in chosen
            }
            if status(dashboard, endpoint, fields) == 500:
                bugs.append((endpoint.method, endpoint.path, fields))

    assert bugs == []
