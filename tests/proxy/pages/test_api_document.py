"""The API's OpenAPI document, and requests made up from it: none of them meets a bug."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from dashboards.access import Role
from proxy.pages.resources.api import API_PATH
from tests.fakes.dashboard import Dashboard

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: make setup installs it"
)
#: Requests per operation.
_EXAMPLES = 12


@pytest.mark.slow
def test_no_request_that_the_document_allows_or_nearly_allows_meets_a_bug(
    dashboard: Dashboard,
) -> None:
    document = schemathesis.openapi.from_asgi(f"{API_PATH}/openapi.json", dashboard.app)
    document = document.exclude(path_regex="/live$")  # a stream that goes on
    headers = {"cookie": dashboard.cookies[Role.ADMIN], "sec-fetch-site": "same-origin"}
    bugs: list[str] = []
    statuses: set[int] = set()
    for found_operation in document.get_all_operations():
        operation = found_operation.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=_EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            answer = case.call(headers=headers)
            statuses.add(answer.status_code)
            if answer.status_code == 500:
                bugs.append(f"{case.method} {case.formatted_path} {case.query!r} {case.body!r}")

        ask()

    assert bugs == []
    assert {200, 201, 404, 422} <= statuses
    assert not statuses & {401, 403}
