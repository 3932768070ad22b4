"""Sinks of alerts as administrators see and test them, on the page and by the API."""

import json

import pytest

from dashboards.access import Role
from tests.fakes.alerts import json_of_post
from tests.fakes.dashboard import Dashboard
from tests.fakes.webhooks import answering_webhook

SINKS = """
[[sinks]]
name = "hook"
kind = "webhook"
url_env = "SINKS_TEST_URL"
secret_env = "SINKS_TEST_SECRET"

[[sinks]]
name = "chat"
kind = "slack"
url_env = "SINKS_TEST_CHAT"
at_least = "page"
"""


@pytest.fixture
def policies() -> str:
    return SINKS


def audit_of_tests(dashboard: Dashboard) -> list[tuple[str, str, object]]:
    """The person, the sink and the result of each test, the newest first."""
    return [
        (entry.who, entry.subject, (entry.after or {})["worked"])
        for entry in dashboard.store.audit.entries(20)
        if entry.action == "test sink"
    ]


def test_a_test_reaches_the_sink_and_the_audit_log(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering_webhook(200, "SINKS_TEST", monkeypatch) as server:
        page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/budgets").body.decode()
        answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/budgets/test-sink", {"name": "hook"})
    (alert,) = json_of_post(server.got[0])["data"]["alerts"]

    assert "Send a test alert to hook" in page
    assert "SINKS_TEST_CHAT is not set" in page
    assert answer.status == 200
    assert '<strong class="healthy">taken</strong>' in answer.body.decode()
    assert alert["fix"] == "Nothing: admin sent it from the dashboard."
    assert audit_of_tests(dashboard) == [("admin", "hook", True)]


def test_a_sink_that_does_not_take_it_says_why_without_its_address(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering_webhook(404, "SINKS_TEST", monkeypatch):
        answer = dashboard.ask_as(Role.ADMIN, "POST", "/api/v1/alerts/sinks/hook/test")

    assert json.loads(answer.body) == {"recipient": "hook", "failure": "it answered 404."}
    assert audit_of_tests(dashboard) == [("admin", "hook", False)]


@pytest.mark.parametrize(
    ("name", "text"), [("other", "There is no sink"), ("chat", "SINKS_TEST_CHAT is not set")]
)
def test_a_sink_that_cannot_be_tested_is_explained(
    dashboard: Dashboard, name: str, text: str
) -> None:
    answer = dashboard.ask_as(Role.ADMIN, "POST", "/admin/budgets/test-sink", {"name": name})

    assert answer.status in {400, 404}
    assert text in answer.body.decode()
    assert audit_of_tests(dashboard) == []


def test_other_roles_see_no_sinks(dashboard: Dashboard) -> None:
    page = dashboard.ask_as(Role.FINANCE, "GET", "/admin/budgets").body.decode()

    assert "Where alerts go" not in page
