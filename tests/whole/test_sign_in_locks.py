"""Strangers lock nobody out of the pages, behind a proxy as without one: over HTTP."""

import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from argon2 import PasswordHasher

from dashboards.access import Role
from proxy.pages.access.sign_in_limits import MAX_FAILURES_OF_PAIR
from proxy.store.store import Store
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.serve_process import ServeProcess, serve_process

_NOW = 1_790_000_000.0
_PASSWORD = "correct horse battery"
_STRANGER, _PERSON = "203.0.113.5", "203.0.113.6"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[tuple[ServeProcess, list[str]]]:
    """A gateway with one person, who has a password, and codes of links for them."""
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog) as running,
    ):
        store = Store.open(running.database_url, running.folder / "journal")
        person = store.users.create("ann", Role.ADMIN, frozenset(), now=_NOW, who="test")
        store.users.set_password(person.id, PasswordHasher().hash(_PASSWORD), now=_NOW, who="test")
        codes = [store.users.create_link("ann", now=_NOW, lifetime_s=1e9) for _ in range(2)]
        store.close(10)
        yield running, codes


def sign_in(
    gateway: ServeProcess, caller: str, cookie: str = "", **fields: str
) -> tuple[int, dict[str, str]]:
    """The status and the cookies of a sign-in that a proxy passes on for this caller.

    Args:
        gateway: The gateway.
        caller: Address that the proxy appends to what the caller wrote.
        cookie: Sent by the browser.
        fields: The form.
    """
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-forwarded-for": f"{_PERSON}, {caller}",
        "cookie": cookie,
    }
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)) as browser:
        browser.request("POST", "/admin/sign-in", urlencode(fields), headers)
        answer = browser.getresponse()
        answer.read()
        lines = [value for name, value in answer.getheaders() if name.lower() == "set-cookie"]
    cookies = (line.partition(";")[0].partition("=") for line in lines)
    return answer.status, {name: value for name, _, value in cookies}


def lock_out(gateway: ServeProcess, caller: str) -> None:
    """Fail until this caller has to wait, whose failures are forgiven one in 30 s."""
    statuses = [
        sign_in(gateway, caller, name="ann", password="wrong")[0]
        for _ in range(MAX_FAILURES_OF_PAIR + 1)
    ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


def test_a_stranger_behind_a_trusted_proxy_locks_only_themselves_out(gateway):
    process, codes = gateway
    process.start(THRIFTGATE_TRUSTED_PROXIES="127.0.0.0/8, ::1")
    lock_out(process, _STRANGER)

    assert sign_in(process, _STRANGER, name="ann", password=_PASSWORD)[0] == 429
    assert sign_in(process, _PERSON, name="ann", password=_PASSWORD)[0] == 303
    assert sign_in(process, _STRANGER, code=codes[0])[0] == 303


def test_behind_a_proxy_that_is_not_trusted_a_link_and_a_browser_that_knows_the_person_work(
    gateway,
):
    process, codes = gateway
    process.start()
    status, cookies = sign_in(process, _PERSON, code=codes[0])
    assert status == 303
    lock_out(process, _STRANGER)

    assert sign_in(process, _PERSON, name="ann", password=_PASSWORD)[0] == 429
    cookie = f"thriftgate_browser={cookies['thriftgate_browser']}"
    assert sign_in(process, _PERSON, cookie, name="ann", password=_PASSWORD)[0] == 303
    assert sign_in(process, _STRANGER, code=codes[1])[0] == 303


def test_a_refused_key_is_logged_with_the_address_that_the_trusted_proxy_says(gateway):
    process, _ = gateway
    process.start(THRIFTGATE_TRUSTED_PROXIES="127.0.0.1")
    with closing(http.client.HTTPConnection("127.0.0.1", process.port, timeout=60)) as caller:
        headers = {"authorization": "Bearer tg-none", "forwarded": 'for="[2001:db8::9]:4711"'}
        caller.request("POST", "/v1/chat/completions", b"{}", headers)
        assert caller.getresponse().status == 401

    assert "A call from 2001:db8::9 was refused with 401 invalid_api_key" in process.log()
