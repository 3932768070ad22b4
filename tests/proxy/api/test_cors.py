import pytest

from proxy.api.cors import with_cors
from tests.fakes.asgi import AsgiConnection, answer_of_app, nothing, scope
from tests.fakes.clock import run_in_instant_time
from tests.fakes.endpoint_harness import EndpointHarness

APP = "https://app.example.com"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,x-stainless-os",
    "authorization": "",
}


def call_from_browser(
    *origins: str, method: str = "POST", path: str = "/v1/chat/completions", **sent: str
):
    """A call to a gateway that is open to these origins."""
    harness = EndpointHarness()
    head = scope(path, method, {name.replace("_", "-"): value for name, value in sent.items()})
    return run_in_instant_time(
        answer_of_app(with_cors(harness.front, origins), head, AsgiConnection([b"{}"]))
    )


def test_without_origins_the_app_stays_itself():
    assert with_cors(nothing, ()) is nothing


@pytest.mark.parametrize(("origins", "allowed"), [([APP], APP), (["*"], "*")])
def test_an_error_carries_the_headers_too(origins, allowed):
    answered = call_from_browser(*origins, origin=APP)

    assert answered.status == 400
    assert answered.headers["access-control-allow-origin"] == allowed
    assert answered.headers["access-control-expose-headers"] == "*"
    assert "access-control-allow-credentials" not in answered.headers


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/openai/v1/chat/completions"])
def test_a_missing_key_is_reported_to_a_browser(path):
    answered = call_from_browser(APP, origin=APP, authorization="", path=path)

    assert answered.status == 401
    assert answered.headers["access-control-allow-origin"] == APP


def test_an_answer_to_no_browser_or_another_origin_allows_nothing():
    assert "access-control-allow-origin" not in call_from_browser(APP).headers
    assert (
        "access-control-allow-origin"
        not in call_from_browser(APP, origin="https://evil.example").headers
    )


def test_a_preflight_is_answered_without_a_key():
    answered = call_from_browser(APP, method="OPTIONS", origin=APP, **PREFLIGHT)

    assert answered.status == 200
    assert answered.headers["access-control-allow-origin"] == APP
    assert "POST" in answered.headers["access-control-allow-methods"]
    assert answered.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert answered.headers["access-control-max-age"] == "7200"


def test_a_preflight_of_another_origin_is_refused():
    answered = call_from_browser(APP, method="OPTIONS", origin="https://evil.example", **PREFLIGHT)

    assert answered.status == 400
    assert "access-control-allow-origin" not in answered.headers


def test_pages_are_open_to_no_other_origin():
    answered = call_from_browser("*", path="/admin", method="GET", origin=APP)

    assert answered.body == b"pages"
    assert "access-control-allow-origin" not in answered.headers
