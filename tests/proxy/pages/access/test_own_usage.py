"""``/me``: a key's holder gives it once, sees its usage for a while, and nobody else does."""

import logging
from collections.abc import Callable
from http.cookies import SimpleCookie

import pytest

from dashboards.access import Role
from proxy.pages.access.own_usage import LIFETIME_S, KeyCookies
from proxy.pages.access.sign_in_limits import MAX_FAILURES_OF_ADDRESS
from proxy.store.sql.ledger.inserts import inserter
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.clock import ManualClock
from tests.fakes.dashboard import Dashboard, new_cookie
from tests.fakes.receipts import a_receipt

_KEY = "key_0123"


@pytest.fixture
def key(dashboard: Dashboard) -> tuple[str, str]:
    """Id and secret of a key that made a call."""
    key, secret = dashboard.store.teams.create_key(dashboard.own, "ci", now=NOW)
    receipt = a_receipt(1, team=dashboard.own, key_id=key.id, route="lab/big", started=NOW - 60)
    assert inserter(dashboard.store._engine)([receipt]) is None
    return key.id, secret


def give(dashboard: Dashboard, secret: str, **headers: str) -> AsgiConnection:
    return dashboard.ask("POST", "/me", document={"key": secret}, **headers)


def test_a_key_that_is_given_once_shows_its_usage(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    answer = give(dashboard, key[1])

    assert (answer.status, answer.headers["location"]) == (303, "/me")
    page = dashboard.ask("GET", "/me", cookie=new_cookie(answer))
    html = page.body.decode()
    assert page.status == 200
    assert key[0] in html
    assert "team acme" in html
    assert "big" in html
    assert page.headers["cache-control"] == "no-store"
    assert "style-src 'self'" in page.headers["content-security-policy"]


def test_the_cookie_names_the_key_and_is_for_this_page_and_this_site_alone(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    (cookie,) = SimpleCookie(give(dashboard, key[1]).headers["set-cookie"]).values()
    (over_https,) = SimpleCookie(
        give(dashboard, key[1], x_forwarded_proto="https").headers["set-cookie"]
    ).values()

    assert (cookie["path"], cookie["samesite"], cookie["httponly"]) == ("/me", "strict", True)
    assert int(cookie["max-age"]) == LIFETIME_S
    assert key[1] not in cookie.value
    assert over_https["secure"] is True
    assert over_https.key == "__Secure-thriftgate_key"


def test_the_key_is_written_nowhere(
    dashboard: Dashboard, key: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        wrong = give(dashboard, f"{key[1][:-1]}!")
        give(dashboard, key[1])

    assert key[1][:-1] not in caplog.text
    assert key[1][:-1] not in wrong.body.decode()


def test_unknown_revoked_and_no_keys_get_the_same_answer(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    unknown = give(dashboard, f"tg-{'x' * (len(key[1]) - 3)}")
    dashboard.store.teams.revoke(key[0], now=NOW)
    answers = [unknown, give(dashboard, key[1]), give(dashboard, ""), give(dashboard, "sk-other")]

    assert {answer.status for answer in answers} == {401}
    assert {answer.body for answer in answers} == {unknown.body}
    assert "set-cookie" not in unknown.headers


def test_an_address_that_gives_many_wrong_keys_has_to_wait(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    statuses = [give(dashboard, "tg-wrong").status for _ in range(MAX_FAILURES_OF_ADDRESS)]
    refused = give(dashboard, key[1])

    assert set(statuses) == {401}
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) > 0


def test_the_page_closes_when_the_key_is_revoked_or_its_time_is_over(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    ended = KeyCookies(dashboard.store.secret, lambda: NOW - LIFETIME_S).new_cookie(key[0])
    cookie = new_cookie(give(dashboard, key[1]))
    dashboard.store.teams.revoke(key[0], now=NOW)

    for closed in (cookie, f"thriftgate_key={ended}", f"thriftgate_key={key[0]}", ""):
        html = dashboard.ask("GET", "/me", cookie=closed).body.decode()
        assert 'name="key"' in html
        assert key[0] not in html


def test_the_key_can_be_forgotten(dashboard: Dashboard, key: tuple[str, str]) -> None:
    cookie = new_cookie(give(dashboard, key[1]))
    (gone,) = SimpleCookie(
        dashboard.ask("POST", "/me/leave", cookie=cookie).headers["set-cookie"]
    ).values()

    assert (gone.value, gone["max-age"], gone["path"]) == ("", "0", "/me")


@pytest.mark.parametrize("path", ["/me", "/me/leave"])
def test_another_site_gives_and_forgets_no_key(
    dashboard: Dashboard, key: tuple[str, str], path: str
) -> None:
    document = {"key": key[1]}
    answer = dashboard.ask("POST", path, document=document, sec_fetch_site="cross-site")

    assert answer.status == 403
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("role", "team", "status"),
    [
        (Role.ADMIN, "own", 200),
        (Role.ADMIN, "other", 200),
        (Role.TEAM_ADMIN, "own", 200),
        (Role.TEAM_ADMIN, "other", 404),
        (Role.VIEWER, "own", 404),
        (Role.FINANCE, "own", 404),
    ],
)
def test_a_person_sees_the_keys_whose_calls_their_role_may_see(
    dashboard: Dashboard, role: Role, team: str, status: int
) -> None:
    key, _ = dashboard.store.teams.create_key(getattr(dashboard, team), "", now=NOW)
    answer = dashboard.ask_as(role, "GET", f"/me?key={key.id}")

    assert answer.status == status
    assert (key.id in answer.body.decode()) == (status == 200)


def test_nobody_sees_a_key_by_its_id_without_a_sign_in(
    dashboard: Dashboard, key: tuple[str, str]
) -> None:
    answer = dashboard.ask("GET", f"/me?key={key[0]}")

    assert answer.status == 200
    assert key[0] not in answer.body.decode()


def test_a_session_of_a_key_opens_no_admin_page(dashboard: Dashboard, key: tuple[str, str]) -> None:
    cookie = new_cookie(give(dashboard, key[1]))

    assert dashboard.ask("GET", "/admin", cookie=cookie).status == 303
    assert dashboard.ask("GET", "/api/v1/session", cookie=cookie).status == 401


def test_a_cookie_names_its_key_for_half_an_hour() -> None:
    clock = ManualClock(5000.0)
    cookies = KeyCookies(b"a secret", clock)
    cookie = cookies.new_cookie(_KEY)

    clock.now += LIFETIME_S - 1
    assert cookies.key_id(cookie) == _KEY
    clock.now += 1
    assert cookies.key_id(cookie) == ""


def test_the_cookie_of_another_installation_names_nothing() -> None:
    clock = ManualClock(5000.0)
    cookie = KeyCookies(b"another secret", clock).new_cookie(_KEY)

    assert KeyCookies(b"a secret", clock).key_id(cookie) == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda cookie: "",
        lambda cookie: "..",
        lambda cookie: cookie.replace("key_", "key-"),
        lambda cookie: cookie.replace(".6800.", ".9999."),
        lambda cookie: cookie[:-1],
        lambda cookie: f"{cookie}é",
        lambda cookie: "x" * 10_000,
    ],
)
def test_a_changed_cookie_names_nothing(change: Callable[[str], str]) -> None:
    cookies = KeyCookies(b"a secret", ManualClock(5000.0))

    assert cookies.key_id(change(cookies.new_cookie(_KEY))) == ""


def test_a_cookie_needs_no_quotes() -> None:
    cookie = KeyCookies(b"a secret", ManualClock(5000.0)).new_cookie(_KEY)

    assert SimpleCookie(f"a={cookie}")["a"].value == cookie
