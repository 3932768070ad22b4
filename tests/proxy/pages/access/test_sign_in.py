"""Signing in and out: what opens the pages, to which of them it leads, and what is kept."""

from http.cookies import SimpleCookie
from urllib.parse import quote, urlencode

import pytest

from dashboards.access import Role
from proxy.pages.access.sessions import FRESH_S
from proxy.pages.access.sign_in_limits import MAX_FAILURES_OF_PAIR
from tests.fakes.admin_browser import TOKEN, Browser
from tests.fakes.asgi import AsgiConnection
from tests.fakes.page_access import PASSWORD, a_person


def sign_in(
    browser: Browser, headers: dict[str, str] | None = None, **fields: str
) -> AsgiConnection:
    return browser.post("/sign-in", urlencode(fields).encode(), **(headers or {}))


def test_the_page_that_was_wanted_follows_the_form() -> None:
    browser = Browser()
    request = browser.get("/calls/none?tz=Europe/Berlin").headers["location"]
    assert request == f"/admin/sign-in?next={quote('/admin/calls/none?tz=Europe/Berlin', safe='')}"

    form = browser.get(request.removeprefix("/admin")).body.decode()
    assert 'name="next" value="/admin/calls/none?tz=Europe/Berlin"' in form

    fields = {"token": TOKEN, "next": "/admin/calls/none?tz=Europe/Berlin"}
    answer = browser.post("/sign-in", urlencode(fields).encode())
    assert answer.headers["location"] == "/admin/calls/none?tz=Europe/Berlin"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example",
        "//evil.example",
        "/v1/models",
        "/adminx",
        "/admin/\\evil",
        "/admin/../v1/models",
        "/admin/x\ny",
    ],
)
def test_signing_in_leads_to_no_other_place(target: str) -> None:
    answer = Browser().post("/sign-in", urlencode({"token": TOKEN, "next": target}).encode())

    assert (answer.status, answer.headers["location"]) == (303, "/admin")


def test_a_person_signs_in_by_name_and_password() -> None:
    browser = Browser(token="")
    answer = sign_in(browser, name="ann", password=PASSWORD)

    assert (answer.status, answer.headers["location"]) == (303, "/admin")
    assert ">ann</a> <small>admin</small>" in browser.get().body.decode()


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("", "")])
def test_a_wrong_password_and_a_name_that_nobody_has_are_told_alike(
    name: str, password: str
) -> None:
    browser = Browser(token="")
    answer = sign_in(browser, name=name, password=password)

    assert (answer.status, "set-cookie" in answer.headers) == (401, False)
    assert "No person has this name and this password." in answer.body.decode()


@pytest.mark.parametrize("name", ["ann", "nobody"])
def test_passwords_cannot_be_guessed_at_length_whether_there_is_such_a_person_or_not(
    name: str,
) -> None:
    browser = Browser(token="")
    for _ in range(MAX_FAILURES_OF_PAIR):
        assert sign_in(browser, name=name, password="wrong").status == 401
    late = sign_in(browser, name=name, password=PASSWORD)

    assert (late.status, late.headers["retry-after"]) == (429, "31")
    browser.watch.now += 30.0
    assert sign_in(browser, name=name, password=PASSWORD).status == (303 if name == "ann" else 401)


def test_wrong_passwords_keep_nobody_out_at_another_address() -> None:
    browser = Browser(token="")
    for _ in range(MAX_FAILURES_OF_PAIR + 1):
        sign_in(browser, name="ann", password="wrong")
    browser.address = "192.0.2.8"

    assert sign_in(browser, name="ann", password=PASSWORD).status == 303


def test_a_browser_in_which_the_person_signed_in_before_is_spared_at_the_same_address() -> None:
    browser = Browser(token="")
    sign_in(browser, name="ann", password=PASSWORD)
    browser.post("/sign-out")
    catalog, browser.known_cookie = browser.known_cookie, ""
    for _ in range(MAX_FAILURES_OF_PAIR):
        sign_in(browser, name="ann", password="wrong")

    assert sign_in(browser, name="ann", password=PASSWORD).status == 429
    browser.known_cookie = catalog
    assert sign_in(browser, name="ann", password=PASSWORD).status == 303


def test_a_link_signs_in_where_passwords_have_to_wait() -> None:
    browser = Browser(token="")
    browser.kept.links["c0de"] = "ann"
    for number in range(200):
        sign_in(browser, name="ann", password="wrong")
        assert sign_in(browser, code=f"guess {number}").status == 401

    assert sign_in(browser, code="c0de").status == 303


def test_a_link_signs_in_once_by_a_button_and_not_by_being_looked_at() -> None:
    browser = Browser(token="")
    browser.kept.links["c0de"] = "ann"
    for _ in range(2):  # as programs do that look at links in messages
        assert 'name="code" value="c0de"' in browser.get("/sign-in?code=c0de").body.decode()

    assert sign_in(browser, code="c0de").status == 303
    assert browser.get().status == 200
    again = sign_in(Browser(token=""), code="c0de")
    assert (again.status, "used already" in again.body.decode()) == (401, True)


def test_a_person_without_a_password_is_asked_to_set_one() -> None:
    browser = Browser(token="")
    browser.kept.people["new"] = a_person("new")
    object.__setattr__(browser.kept.people["new"], "has_password", False)
    browser.kept.links |= {"one": "new", "two": "new"}

    assert sign_in(browser, code="one").headers["location"] == "/admin/account"
    assert sign_in(browser, code="two", next="/admin/").headers["location"] == "/admin/"


def test_an_id_that_somebody_else_planted_is_not_taken_over() -> None:
    browser = Browser(token="")
    planted = "thriftgate_admin=" + "x" * 43
    browser.cookie = planted
    sign_in(browser, name="ann", password=PASSWORD)
    assert browser.cookie != planted

    browser.cookie = planted
    assert browser.get().status == 303


def test_over_https_only_the_cookie_bound_to_this_host_counts() -> None:
    browser = Browser(token="")
    https = {"x_forwarded_proto": "https"}
    answer = sign_in(browser, https, name="ann", password=PASSWORD)
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie.key == "__Host-thriftgate_admin"
    assert (cookie["path"], cookie["secure"], cookie["domain"]) == ("/", True, "")
    assert browser.get(**https).status == 200

    browser.cookie = f"thriftgate_admin={cookie.value}"
    assert browser.get(**https).status == 303


def test_a_session_of_a_token_that_was_replaced_opens_nothing() -> None:
    browser = Browser()
    browser.sign_in()
    other = Browser(token="another-token-of-24-chars")
    other.kept.sessions, other.cookie = browser.kept.sessions, browser.cookie

    assert browser.get().status == 200
    assert other.get().status == 303


def test_a_change_of_role_holds_within_seconds() -> None:
    browser = Browser(token="")
    sign_in(browser, name="ann", password=PASSWORD)
    assert browser.get("/calls").status == 503  # allowed, but there is no database here
    browser.kept.people["ann"] = a_person("ann", Role.VIEWER, "team_a")
    browser.watch.now += FRESH_S

    assert browser.get("/calls").status == 403


def test_while_the_database_is_away_people_wait_and_the_token_works() -> None:
    browser = Browser()
    browser.kept.is_away = True
    late = sign_in(browser, name="ann", password=PASSWORD)
    assert late.status == 503

    assert sign_in(browser, token=TOKEN).status == 303
    assert browser.get().status == 200


def test_the_form_has_a_button_for_the_identity_provider_where_there_is_one() -> None:
    assert "Sign in with Acme" in Browser(provider="Acme").get("/sign-in").body.decode()
    assert "/admin/sso" not in Browser().get("/sign-in").body.decode()
