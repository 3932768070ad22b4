"""Signing in with the admin's token: the form, the session's cookie, and wrong tokens."""

import asyncio
from http.cookies import SimpleCookie

import pytest

from proxy.pages.access.sign_in_limits import MAX_FAILURES
from proxy.store.sql.access.admin_sessions import IDLE_TIMEOUT_S
from tests.fakes.admin_browser import TOKEN, Browser
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope


def test_the_form_asks_for_a_password_and_for_the_token(browser: Browser) -> None:
    answer = browser.get("/sign-in")

    assert answer.status == 200
    assert 'action="/admin/sign-in"' in answer.body.decode()


def test_the_token_opens_the_pages(browser: Browser) -> None:
    answer = browser.sign_in()

    assert (answer.status, answer.headers["location"]) == (303, "/admin")
    page = browser.get()
    assert page.status == 200
    assert "p95 of ttft within 500ms" in page.body.decode()
    assert "chat-ttft: fallback level 2" in page.body.decode()


def test_a_session_is_a_cookie_that_nobody_else_gets(browser: Browser) -> None:
    (cookie,) = SimpleCookie(browser.sign_in().headers["set-cookie"]).values()

    assert (cookie["path"], cookie["samesite"]) == ("/", "lax")
    assert cookie["httponly"] is True
    assert cookie["secure"] == ""
    assert int(cookie["max-age"]) == 12 * 3600
    assert TOKEN not in cookie.value


@pytest.mark.parametrize("text", ["https", "https, http"])
def test_over_https_the_cookie_stays_there(browser: Browser, text: str) -> None:
    (cookie,) = SimpleCookie(browser.sign_in(x_forwarded_proto=text).headers["set-cookie"]).values()

    assert cookie["secure"] is True


def test_a_session_ends_when_it_is_not_used(signed_in: Browser) -> None:
    signed_in.watch.now += IDLE_TIMEOUT_S

    assert signed_in.get().status == 303


def test_signing_out_ends_the_session_and_not_only_the_cookie(signed_in: Browser) -> None:
    before = signed_in.cookie
    answer = signed_in.post("/sign-out")

    assert (answer.status, answer.headers["location"]) == (303, "/admin/sign-in")
    (gone,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert (gone.value, gone["max-age"], gone["path"]) == ("", "0", "/")
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
    answer = browser.sign_in(token)

    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "This is not the token." in answer.body.decode()
    assert not token or f'"{token}"' not in answer.body.decode()


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


FORMS = [
    (b"token=" + b"x" * 20_000, 413),
    (b"a=1&" * 70 + b"token=x", 400),
    (b"", 401),
    (b"token=%ff%fe", 401),
    (b"\xff\xfe", 401),
]


@pytest.mark.parametrize(("sent", "status"), FORMS)
def test_an_invalid_form_is_refused(browser: Browser, sent: bytes, status: int) -> None:
    answer = browser.post("/sign-in", sent)

    assert answer.status == status
    assert len(answer.body) < 4000


def test_a_form_whose_sender_left_is_nothing(browser: Browser) -> None:
    head = scope("/admin/sign-in", headers={"authorization": ""})
    answer = asyncio.run(answer_of_app(browser.app, head, AsgiConnection([], leaves_after=0.0)))

    assert answer.status == 400
    assert browser.sign_in().status == 303
