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


def is_documented(document: dict[str, Any], case: Any, answer: Any) -> bool:
    """True if the document names this status for the operation, and an error has its form."""
    responses = document["paths"][case.path][case.method.lower()]["responses"]
    if (documented := responses.get(str(answer.status_code))) is None:
        return False
    if answer.status_code < 400:
        return True
    schema = documented["content"]["application/json"]["schema"]["$ref"]
    facts = document["components"]["schemas"]["ErrorFacts"]["required"]
    return schema.endswith("/ErrorDocument") and set(facts) <= set(answer.json()["error"])


@pytest.mark.slow
def test_no_request_that_the_document_allows_or_nearly_allows_meets_a_bug(
    dashboard: Dashboard,
) -> None:
    document = schemathesis.openapi.from_asgi(f"{API_PATH}/openapi.json", dashboard.app)
    document = document.exclude(path_regex="/live$")  # a stream that goes on
    headers = {"cookie": dashboard.cookies[Role.ADMIN], "sec-fetch-site": "same-origin"}
    bugs: list[str] = []
    undocumented: set[tuple[str, str, int]] = set()
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
            if not is_documented(document.raw_schema, case, answer):
                undocumented.add((case.method, case.path, answer.status_code))
            if answer.status_code == 500:
                bugs.append(f"{case.method} {case.formatted_path} {case.query!r} {case.body!r}")

        ask()

    assert bugs == []
    assert undocumented == set()
    assert {200, 201, 404, 422} <= statuses
    assert not statuses & {401, 403}
