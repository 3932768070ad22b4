"""Moved calls as whoever runs the gateway sees them: in the policies page, over HTTP."""

import time
from collections.abc import Iterator

import httpx
import pytest

from proxy.store.sql.settings.pins import PinRow
from tests.fakes.fallback_gateway import FallbackGateway, fallback_gateway
from tests.fakes.plain_http import PLAIN

TOKEN = "an-admin-token-of-24-chars"
POLICIES = """
[[objectives]]
name = "chat-ttft"
feature = "chat"
metric = "ttft"
p = 95
under = "30s"
enforce = "degrade"
ladder = ["spare"]

[[budgets]]
name = "teams-month"
scope = "team"
limit = "500"
unit = "usd"
window = "month"
"""
#: Seconds in which a pin is heard of.
_SOON = 20.0


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FallbackGateway]:
    """Models with others in their place, policies, and a token for the pages."""
    with fallback_gateway(tmp_path_factory.mktemp("admin"), POLICIES, admin_token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def browser(gateway: FallbackGateway) -> Iterator[httpx.Client]:
    """One that is signed in."""
    with httpx.Client(
        base_url=gateway.url.removesuffix("/v1"), follow_redirects=True, verify=PLAIN
    ) as client:
        assert "Sign in" in client.get("/admin").text
        opened = client.post("/admin/sign-in", data={"token": TOKEN})
        assert opened.url.path == "/admin"
        yield client


def page(gateway: FallbackGateway, browser: httpx.Client, path: str = "/admin/objectives") -> str:
    """A page, once the ledger has all calls."""
    assert gateway.gateway.store.drain.flush(20)
    answer = browser.get(path)
    assert answer.status_code == 200
    return answer.text


def test_a_call_that_fell_back_is_on_the_page_with_its_receipts(gateway, browser):
    gateway.lab.inject_fault("main", "503")
    try:
        answer = gateway.ask("main", extra_headers={"x-thriftgate-feature": "<script>x</script>"})
    finally:
        gateway.lab.inject_fault("main", "")
    moved, call_id = answer.headers["x-thriftgate-fallback"], answer.headers["x-request-id"]

    html = page(gateway, browser)
    assert f'href="/admin/calls/{call_id}"' in html
    assert moved.startswith("fallback: ")
    for text in (moved, "acme", "lab/spare", "&lt;script&gt;x&lt;/script&gt;"):
        assert f">{text}</td>" in html
    assert "<script>x" not in html
    call = page(gateway, browser, f"/admin/calls/{call_id}")
    assert "Attempt 1" in call
    assert "Attempt 2" in call
    assert moved in call
    assert "Say something." not in call


def test_a_call_that_a_pin_moves_is_on_the_page_with_who_pinned(gateway, browser):
    now = time.time()  # noqa: TID251 - a person's own
    gateway.gateway.store.pins.set(
        PinRow(objective="chat-ttft", level=1, until=now + 600, why="a try", made=now, who="ann")
    )
    until, html = time.monotonic() + _SOON, ""
    while "Pinned to fallback level 1: a try" not in html:  # as a move of the controller
        assert time.monotonic() < until
        html = page(gateway, browser)
    answer = gateway.ask("main", stream=True, extra_headers={"x-thriftgate-feature": "chat"})
    assert list(answer.parse())

    html = page(gateway, browser)
    assert answer.headers["x-thriftgate-fallback"] == "chat-ttft: fallback level 1, pinned"
    assert ">chat-ttft: fallback level 1, pinned</td>" in html
    assert answer.headers["x-request-id"] in html
    assert '<span class="state pinned">pinned</span>' in html
    assert "<dt>Level</dt><dd>1: spare" in html
    assert ">ann<small>a try, until " in html
    html = page(gateway, browser, "/admin/budgets")
    assert "chat-ttft is pinned to spare, fallback level 1" in html  # as an open alert
    assert "teams-month" in html
    assert "not available" not in html


def test_a_session_that_signed_out_sees_no_page(gateway, browser):
    left = browser.post("/admin/sign-out")

    assert left.url.path == "/admin/sign-in"
    assert "Sign in" in browser.get("/admin").text
