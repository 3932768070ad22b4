"""All that is not a call, as a gateway serves it: which door opens what."""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from dashboards import pages
from dashboards.pages import Overview
from proxy.api.starting import OFFLINE
from proxy.app import Gateway, gateway
from proxy.configuration import read_policies
from proxy.errors import ProxyError, Unready
from proxy.pages.app import add_error_handlers, health_router
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.asgi import Connection, asked, refusal, scope
from tests.fakes.clock import played
from tests.fakes.databases import migrated_sqlite
from tests.fakes.offline import offline_store
from tests.fakes.pages import page

TOKEN = "an-admin-token-of-24-chars"
NOW = 1_790_000_000.0


def within(settings: Settings, work: Callable[[Gateway, str], Awaitable[None]]) -> None:
    """Do this with a running gateway and a key of its one team."""

    async def run() -> None:
        async with gateway(settings) as running:
            team = running.store.teams.create("acme", now=NOW)
            _, key = running.store.teams.create_key(team.id, "first", now=NOW)
            await work(running, key)

    asyncio.run(run())


async def got(
    running: Gateway, path: str, method: str = "GET", sent: bytes = b"", **headers: str
) -> Connection:
    head = scope(path, method, {"authorization": "", **headers})
    return await asked(running.app, head, Connection([sent]))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    migrated_sqlite(tmp_path / "gateway" / "thriftgate.db")
    return Settings(folder=tmp_path / "gateway", drain_grace=5.0)


def with_token(settings: Settings, **fields: Any) -> Settings:
    return Settings(**{**settings.model_dump(), "admin_token": TOKEN, **fields})


async def signed_in(running: Gateway) -> str:
    """The cookie of a session."""
    opened = await got(running, "/admin/sign-in", "POST", f"token={TOKEN}".encode())
    assert opened.status == 303
    return opened.headers["set-cookie"].partition(";")[0]


def test_the_pages_are_closed_where_there_is_no_token(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        off = await got(running, "/admin", authorization=f"Bearer {key}")
        assert (off.status, refusal(off)["code"]) == (404, "admin_off")
        assert (await got(running, "/admin/sign-in", "POST", b"token=")).status == 404

    within(settings, work)


def test_the_token_opens_the_pages_and_nothing_else(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        cookie = await signed_in(running)
        page = await got(running, "/admin", cookie=cookie)
        assert page.status == 200
        assert "There are no objectives yet" in page.body.decode()
        for path in ("/v1/models", "/v1/thriftgate/calls/call_1"):
            assert (await got(running, path, cookie=cookie)).status == 401
            told = await got(running, path, authorization=f"Bearer {TOKEN}")
            assert (told.status, refusal(told)["code"]) == (401, "invalid_api_key")
        call = await got(running, "/v1/chat/completions", "POST", b"{}", cookie=cookie)
        assert (call.status, refusal(call)["code"]) == (401, "missing_api_key")
        assert (await got(running, "/v1/models", authorization=f"Bearer {key}")).status == 200

    within(with_token(settings), work)


def test_the_list_of_models_has_a_call_id(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        names = set()
        for path in ("/v1/models", "/v1/models", "/v1/models/gpt-4o", "/v1/models/none"):
            told = await got(running, path, authorization=f"Bearer {key}")
            assert told.status == (404 if path.endswith("none") else 200)
            names.add(told.headers["x-request-id"])
        assert len(names) == 4
        assert all(re.fullmatch("call_[0-9a-f]{32}", name) for name in names)

    within(settings, work)


def test_a_callers_key_opens_no_page(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        for headers in ({"authorization": f"Bearer {key}"}, {"cookie": f"thriftgate_admin={key}"}):
            page = await got(running, "/admin", "GET", b"", **headers)
            assert (page.status, page.headers["location"]) == (303, "/admin/sign-in")
        tried = await got(running, "/admin/sign-in", "POST", f"token={key}".encode())
        assert tried.status == 401

    within(with_token(settings), work)


def test_held_amounts_come_from_the_counters_of_the_process(settings: Settings) -> None:
    file = settings.folder.parent / "policies.toml"
    told = (
        'name = "day"',
        'scope = "organization"',
        'limit = "5"',
        'unit = "usd"',
        'window = "day"',
    )
    file.write_text("\n".join(("[[budgets]]", *told)))

    async def work(running: Gateway, key: str) -> None:
        page = (await got(running, "/admin", cookie=await signed_in(running))).body.decode()
        assert '<td data-name="Held" class="number">$0</td>' in page

    within(with_token(settings, policies=file), work)


def test_the_token_is_in_no_log(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    async def work(running: Gateway, key: str) -> None:
        await signed_in(running)
        await got(running, "/admin/sign-in", "POST", f"token={TOKEN}x".encode())

    with caplog.at_level("DEBUG"):
        within(with_token(settings, log_calls=True), work)

    assert TOKEN not in caplog.text


def test_examples_in_empty_sections_are_valid_policies(tmp_path: Path) -> None:
    """Beside the page's own tests, as the pages' package knows no promises' files."""
    nothing = Overview(objectives=[], reroutes=[], rerouted_calls=[], counters=[], open_alerts=[])
    html = pages.overview(nothing, NOW)
    snippets = re.findall(r"<code>(\[\[.*?)</code>", html, re.DOTALL)
    file = tmp_path / "policies.toml"
    file.write_text("\n\n".join(snippets).replace("&#34;", '"'))

    found = read_policies(Settings(policies=file))
    every = (found.objectives, found.budgets, found.ceilings, found.sinks)
    assert [len(each) for each in every] == [1, 1, 1, 1]


async def readiness(running: Gateway) -> tuple[int, dict[str, Any]]:
    got_ready = await got(running, "/readyz")
    return got_ready.status, json.loads(got_ready.body)


def serving_known(settings: Settings) -> Settings:
    """The settings of a gateway on PostgreSQL that serves known keys without it."""
    fields = {"database_url": "postgresql://db/ledger", "serve_known_keys": timedelta(hours=24)}
    return settings.model_copy(update=fields)


def test_a_gateway_that_serves_known_keys_without_its_database_is_ready_and_says_so(
    settings: Settings, tmp_path: Path
) -> None:
    opened, key = offline_store(tmp_path)

    async def run() -> list[tuple[int, dict[str, Any]]]:
        async with gateway(serving_known(settings), opened) as running:
            models = await got(running, "/v1/models", authorization=f"Bearer {key}")
            assert models.status == 200
            before = await readiness(running)
            opened.go_online()
            assert b"thriftgate_ledger_up 1.0" in (await got(running, "/metrics")).body
            return [before, await readiness(running)]

    ready = {"status": "ready", "troubles": []}
    assert asyncio.run(run()) == [
        (200, {**ready, "notes": [f"degraded: {OFFLINE}"]}),
        (200, ready),
    ]


class UnavailableStore(Store):
    """One whose database is away, and whose journal may be broken, too."""

    def trouble(self) -> list[str]:
        return [*filter(None, [self.journal.trouble]), "changes to keys go unnoticed"]


@pytest.mark.parametrize("chosen", [serving_known, lambda settings: settings])
def test_the_journal_alone_makes_a_gateway_unready(
    chosen: Callable[[Settings], Settings],
    settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    opened = UnavailableStore.open(
        migrated_sqlite(tmp_path / "thriftgate.db"), tmp_path / "journal"
    )

    async def run() -> list[tuple[int, dict[str, Any]]]:
        async with gateway(chosen(settings), opened) as running:
            before = await readiness(running)
            assert b"thriftgate_ledger_up 0.0" in (await got(running, "/metrics")).body
            opened.journal.close()
            opened.journal.append(b"{}")
            return [before, await readiness(running)]

    with caplog.at_level(logging.CRITICAL):
        (status, ready), (status_after, unready) = asyncio.run(run())
    notes = ["degraded: changes to keys go unnoticed"]
    assert (status, ready) == (200, {"status": "ready", "troubles": [], "notes": notes})
    assert (status_after, unready["notes"]) == (503, notes)
    assert "journal" in unready["troubles"][0]


def failing_page(error: Exception | None = None) -> FastAPI:
    """One page, which fails."""
    pages, ids = FastAPI(), count()
    add_error_handlers(pages, lambda: f"call_{next(ids)}")

    @pages.get("/page")
    async def page() -> None:
        if error is not None:
            raise error

    return pages


def answer_to(error: ProxyError) -> Connection:
    return played(asked(failing_page(error), scope("/page", "GET")))


def test_a_page_refuses_with_the_envelope_and_headers_of_a_call():
    busy = answer_to(Unready("Later.", code="busy", retry_after=1.5))

    assert (busy.status, refusal(busy)["code"]) == (503, "busy")
    assert busy.headers == {
        "x-request-id": "call_0",
        "content-type": "application/json",
        "content-length": str(len(busy.body)),
        "retry-after": "2",
        "retry-after-ms": "1500",
    }


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [("/page", "POST", 405, "method_not_allowed"), ("/none", "GET", 404, "not_found")],
)
def test_an_unknown_path_or_method_says_that_a_retry_is_useless(path, method, status, code):
    lost = played(asked(failing_page(), scope(path, method)))

    assert (lost.status, refusal(lost)["code"]) == (status, code)
    assert lost.headers["x-should-retry"] == "false"
    assert lost.headers.get("allow") == ("GET" if status == 405 else None)


def test_a_bug_behind_a_page_is_a_bare_500_and_is_raised_to_be_logged(caplog):
    connection = Connection()
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        played(
            asked(failing_page(RuntimeError("at /etc/secret")), scope("/page", "GET"), connection)
        )

    assert (connection.status, refusal(connection)["code"]) == (500, "internal_error")
    assert b"secret" not in connection.body
    assert "call_0" in caplog.text


@pytest.mark.parametrize(
    ("troubles", "status", "word"), [([], 200, "ready"), (["The disk is full."], 503, "not ready")]
)
def test_readyz_says_what_is_not_ready(troubles, status, word):
    pages = health_router(lambda: troubles, list, lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        status,
        {"status": word, "troubles": troubles},
    )


def test_healthz_is_ok_while_the_process_answers():
    pages = health_router(lambda: ["all is lost"], list, lambda: b"")

    assert page(pages, "/healthz", headers={"authorization": ""})[:2] == (200, {"status": "ok"})


def test_the_metrics_page_returns_the_text_of_prometheus():
    status, text, headers = page(health_router(list, list, lambda: b"up 1\n"), "/metrics")

    assert (status, text) == (200, b"up 1\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


def test_readyz_shows_notes_that_do_not_make_it_fail():
    pages = health_router(list, lambda: ["The reload failed."], lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        200,
        {"status": "ready", "troubles": [], "notes": ["The reload failed."]},
    )
