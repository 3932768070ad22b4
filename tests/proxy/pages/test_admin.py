"""The pages below /admin: who may look, and what browsers are told of them."""

import asyncio
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI

from proxy.pages import admin
from proxy.pages.admin_sessions import IDLE_TIMEOUT_S, MAX_FAILURES
from proxy.pages.app import add_error_handlers
from tests.fakes.asgi import Connection, asked, refusal, scope
from tests.fakes.board import CALL, NOW, FakeBoard, a_rerouted_call, overview
from tests.fakes.objective_process import ManualClock

TOKEN = "an-admin-token-of-24-chars"
POLICY = (
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none';"
    " base-uri 'none'"
)


class Browser:
    """Asks one gateway's pages, and keeps its cookie."""

    def __init__(self, board: FakeBoard | None = None, *, is_off: bool = False) -> None:
        self.board = board or FakeBoard()
        self.watch = ManualClock(5000.0)
        router = admin.router(self.board, TOKEN, self.watch, lambda: NOW)
        self.app = FastAPI(redirect_slashes=False)
        self.app.include_router(admin.disabled_router() if is_off else router)
        add_error_handlers(self.app, lambda: "call_1")
        self.cookie = ""

    def get(self, path: str = "", **headers: str) -> Connection:
        return self._asked("GET", path, b"", headers)

    def post(self, path: str, sent: bytes = b"", **headers: str) -> Connection:
        return self._asked("POST", path, sent, headers)

    def sign_in(self, token: str = TOKEN, **headers: str) -> Connection:
        return self.post("/sign-in", urlencode({"token": token}).encode(), **headers)

    def _asked(self, method: str, path: str, sent: bytes, headers: dict[str, str]) -> Connection:
        told = {
            "authorization": "",
            "host": "gateway:8080",
            "cookie": self.cookie,
            "content-type": "application/x-www-form-urlencoded" if sent else "",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = scope(f"/admin{path}", method, told)
        got = asyncio.run(asked(self.app, head, Connection([sent])))
        if "set-cookie" in got.headers:
            self.cookie = got.headers["set-cookie"].partition(";")[0]
        return got


@pytest.fixture
def browser() -> Browser:
    return Browser()


@pytest.fixture
def signed_in(browser: Browser) -> Browser:
    assert browser.sign_in().status == 303
    return browser


def text(got: Connection) -> str:
    return got.body.decode()


def test_without_a_token_it_says_how_to_turn_the_pages_on() -> None:
    got = Browser(is_off=True).get()

    assert (got.status, refusal(got)["code"]) == (404, "admin_off")
    assert "THRIFTGATE_ADMIN_TOKEN" in refusal(got)["message"]


@pytest.mark.parametrize("path", ["/sign-in", "/admin.css", f"/calls/{CALL}"])
def test_without_a_token_there_is_nothing_else(path: str) -> None:
    assert Browser(is_off=True).get(path).status == 404


@pytest.mark.parametrize("path", ["", f"/calls/{CALL}", "/calls/anything"])
def test_a_visitor_without_a_session_is_sent_to_sign_in(browser: Browser, path: str) -> None:
    got = browser.get(path)

    assert (got.status, got.headers["location"]) == (303, "/admin/sign-in")
    assert got.body == b""
    assert browser.board.asked == []


def test_the_form_asks_for_the_token(browser: Browser) -> None:
    got = browser.get("/sign-in")

    assert got.status == 200
    assert 'action="/admin/sign-in"' in text(got)


def test_the_token_opens_the_pages(browser: Browser) -> None:
    got = browser.sign_in()

    assert (got.status, got.headers["location"]) == (303, "/admin")
    page = browser.get()
    assert page.status == 200
    assert "p95 of ttft within 500ms" in text(page)
    assert "chat-ttft: fallback level 2" in text(page)


def test_a_session_is_a_cookie_that_nobody_else_gets(browser: Browser) -> None:
    (cookie,) = SimpleCookie(browser.sign_in().headers["set-cookie"]).values()

    assert (cookie["path"], cookie["samesite"]) == ("/admin", "lax")
    assert cookie["httponly"] is True
    assert cookie["secure"] == ""
    assert int(cookie["max-age"]) == 12 * 3600
    assert TOKEN not in cookie.value


@pytest.mark.parametrize("said", ["https", "https, http"])
def test_over_https_the_cookie_stays_there(browser: Browser, said: str) -> None:
    (cookie,) = SimpleCookie(browser.sign_in(x_forwarded_proto=said).headers["set-cookie"]).values()

    assert cookie["secure"] is True


def test_a_session_ends_when_it_is_not_used(signed_in: Browser) -> None:
    signed_in.watch.now += IDLE_TIMEOUT_S

    assert signed_in.get().status == 303


def test_signing_out_ends_the_session_and_not_only_the_cookie(signed_in: Browser) -> None:
    before = signed_in.cookie
    got = signed_in.post("/sign-out")

    assert (got.status, got.headers["location"]) == (303, "/admin/sign-in")
    (gone,) = SimpleCookie(got.headers["set-cookie"]).values()
    assert (gone.value, gone["max-age"], gone["path"]) == ("", "0", "/admin")
    assert (gone["samesite"], gone["httponly"], gone["secure"]) == ("lax", True, "")
    signed_in.cookie = before
    assert signed_in.get().status == 303


def test_signing_in_anew_ends_the_session_before(signed_in: Browser) -> None:
    before = signed_in.cookie
    signed_in.sign_in()

    assert signed_in.cookie != before
    assert signed_in.get().status == 200
    signed_in.cookie = before
    assert signed_in.get().status == 303


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "tg-1"])
def test_a_wrong_token_opens_nothing_and_is_not_said_again(browser: Browser, token: str) -> None:
    got = browser.sign_in(token)

    assert got.status == 401
    assert "set-cookie" not in got.headers
    assert "This is not the token." in text(got)
    assert not token or f'"{token}"' not in text(got)


def test_after_five_wrong_tokens_the_next_wrong_ones_have_to_wait(browser: Browser) -> None:
    for _ in range(MAX_FAILURES):
        assert browser.sign_in("wrong").status == 401
    late = browser.sign_in("wrong")

    assert late.status == 429
    assert late.headers["retry-after"] == "61"
    browser.watch.now += 60.0
    assert browser.sign_in("wrong").status == 401


def test_wrong_tokens_keep_nobody_out_who_has_the_right_one(browser: Browser) -> None:
    for _ in range(MAX_FAILURES + 1):
        browser.sign_in("wrong")

    assert browser.sign_in().status == 303
    assert browser.get().status == 200


def test_wrong_tokens_keep_nobody_out_who_is_in(signed_in: Browser) -> None:
    mine = signed_in.cookie
    for _ in range(MAX_FAILURES + 1):
        signed_in.sign_in("wrong")
    signed_in.cookie = mine

    assert signed_in.get().status == 200


def test_a_callers_key_opens_no_page(browser: Browser) -> None:
    assert browser.get(authorization="Bearer tg-1").status == 303
    assert browser.get(authorization=f"Bearer {TOKEN}").status == 303


SOURCES = [
    ({"sec_fetch_site": "same-origin"}, True),
    ({"sec_fetch_site": "none"}, True),
    ({"sec_fetch_site": "same-site"}, False),
    ({"sec_fetch_site": "cross-site"}, False),
    ({"sec_fetch_site": "cross-site", "origin": "http://gateway:8080"}, False),
    ({"sec_fetch_site": "same-origin", "origin": "null"}, True),
    ({"origin": "http://gateway:8080"}, True),
    ({"origin": "https://gateway:8080"}, True),
    ({"origin": "http://gateway"}, False),
    ({"origin": "http://evil.example"}, False),
    ({"origin": "http://[gateway:8080"}, False),
    ({"origin": "null"}, False),
    ({}, True),
]


@pytest.mark.parametrize(("headers", "is_taken"), SOURCES)
def test_forms_of_other_sites_are_not_taken(headers: dict[str, str], is_taken: bool) -> None:  # noqa: FBT001 - a row
    browser = Browser()
    assert browser.sign_in(**headers).status == (303 if is_taken else 403)

    browser.sign_in()
    left = browser.post("/sign-out", b"", **headers)
    assert left.status == (303 if is_taken else 403)
    if not is_taken:
        assert refusal(left)["code"] == "cross_site"
        assert browser.get().status == 200


FORMS = [
    (b"token=" + b"x" * 5000, 413),
    (b"a=1&" * 20 + b"token=x", 400),
    (b"", 401),
    (b"token=%ff%fe", 401),
    (b"\xff\xfe", 401),
]


@pytest.mark.parametrize(("sent", "status"), FORMS)
def test_an_invalid_form_is_refused(browser: Browser, sent: bytes, status: int) -> None:
    got = browser.post("/sign-in", sent)

    assert got.status == status
    assert len(got.body) < 2000


def test_a_form_whose_sender_left_is_nothing(browser: Browser) -> None:
    head = scope("/admin/sign-in", headers={"authorization": ""})
    got = asyncio.run(asked(browser.app, head, Connection([], leaves_after=0.0)))

    assert got.status == 400
    assert browser.sign_in().status == 303


def test_every_page_has_a_policy_that_lets_nothing_in(signed_in: Browser) -> None:
    paths = ("", "/", "/sign-in", f"/calls/{CALL}", "/calls/none", "/admin.css")
    answers = [signed_in.get(path) for path in paths]
    answers += [signed_in.sign_in("wrong"), signed_in.post("/sign-out")]
    answers += [signed_in.get()]

    for got in answers:
        assert got.headers["content-security-policy"] == POLICY
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["cache-control"] == "no-store"
        assert got.headers["referrer-policy"] == "same-origin"
        assert got.headers["x-frame-options"] == "DENY"


def test_a_slash_too_many_leads_to_the_page_and_to_no_other_host(browser: Browser) -> None:
    got = browser.get("/", host="evil.example")

    assert (got.status, got.headers["location"]) == (303, "/admin")
    assert browser.get("/sign-in/").status == 404


def test_the_stylesheet_is_one(browser: Browser) -> None:
    got = browser.get("/admin.css")

    assert got.headers["content-type"].startswith("text/css")
    assert b"prefers-color-scheme" in got.body


def test_a_call_is_shown_with_its_receipts(signed_in: Browser) -> None:
    got = signed_in.get(f"/calls/{CALL}")

    assert got.status == 200
    assert "Attempt 1" in text(got)
    assert signed_in.board.asked == [CALL]


@pytest.mark.parametrize("call_id", ["x" * 500, "call_1", CALL.upper(), CALL + "a", CALL + "%0A"])
def test_an_invalid_call_id_is_not_looked_up(signed_in: Browser, call_id: str) -> None:
    got = signed_in.get(f"/calls/{call_id}")

    assert got.status == 404
    assert "No such call" in text(got)
    assert signed_in.board.asked == []


def test_a_call_that_is_not_there_is_not_found() -> None:
    browser = Browser(FakeBoard(one=None))
    browser.sign_in()

    assert browser.get(f"/calls/{CALL}").status == 404


def test_a_ledger_that_does_not_answer_is_told_and_is_worth_another_try() -> None:
    browser = Browser(FakeBoard(is_late=True))
    browser.sign_in()
    got = browser.get(f"/calls/{CALL}")

    assert got.status == 503
    assert "did not answer in time" in text(got)


def test_a_part_that_is_not_known_leaves_the_page_standing() -> None:
    browser = Browser(FakeBoard(page=overview(counters=None)))
    browser.sign_in()
    got = browser.get()

    assert got.status == 200
    assert "Budgets are not available just now" in text(got)


def test_a_script_in_a_features_name_is_text() -> None:
    evil: Any = a_rerouted_call(feature="<script>alert(1)</script>")
    browser = Browser(FakeBoard(page=overview(rerouted_calls=[evil])))
    browser.sign_in()

    assert "<script" not in text(browser.get())
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text(browser.get())


def test_pages_only_read(signed_in: Browser) -> None:
    assert signed_in.post("").status == 405
    assert signed_in.post(f"/calls/{CALL}").status == 405
