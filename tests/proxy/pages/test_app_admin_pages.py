"""The pages below /admin in a browser: their headers, forms of other sites, and their contents."""

import pytest

from proxy.pages.viewing import HEADERS
from tests.fakes.admin_browser import Browser
from tests.fakes.asgi import refusal
from tests.fakes.board import CALL, FakeBoard, overview


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"origin": "http://evil.example"}, False),
    ],
)
def test_forms_of_other_sites_are_not_taken(headers: dict[str, str], is_taken: bool) -> None:  # noqa: FBT001 - a row
    browser = Browser()
    assert browser.sign_in(**headers).status == (303 if is_taken else 403)

    browser.sign_in()
    left = browser.post("/sign-out", b"", **headers)
    assert left.status == (303 if is_taken else 403)
    if not is_taken:
        assert refusal(left)["code"] == "cross_site"
        assert browser.get().status == 200


def test_every_page_has_a_policy_that_lets_nothing_in(signed_in: Browser) -> None:
    paths = ("", "/", "/sign-in", f"/calls/{CALL}", "/calls/none")
    answers = [signed_in.get(path) for path in paths]
    answers += [signed_in.sign_in("wrong"), signed_in.post("/sign-out")]
    answers += [signed_in.get()]

    for answer in answers:
        assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"


def test_a_slash_too_many_leads_to_the_page_and_to_no_other_host(browser: Browser) -> None:
    answer = browser.get("/", host="evil.example")

    assert (answer.status, answer.headers["location"]) == (303, "/admin")
    assert browser.get("/sign-in/").status == 404


def test_the_stylesheet_is_one(browser: Browser) -> None:
    answer = browser.get("/static/admin.css")

    assert answer.headers["content-type"].startswith("text/css")
    assert b"prefers-color-scheme" in answer.body


def test_a_part_that_is_not_known_leaves_the_page_standing() -> None:
    browser = Browser(FakeBoard(page=overview(counters=None)))
    browser.sign_in()
    answer = browser.get("/budgets")

    assert answer.status == 200
    assert "Budgets: not available just now" in answer.body.decode()


def test_pages_only_read(signed_in: Browser) -> None:
    assert signed_in.post("").status == 405
    assert signed_in.post(f"/calls/{CALL}").status == 405
