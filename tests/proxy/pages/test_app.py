"""All that is not a call, as a gateway serves it: which door opens what."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from dashboards import pages
from dashboards.access import Role, Viewer
from dashboards.views.alerts import AlertsView
from proxy.api.connections.starting import OFFLINE
from proxy.app import Gateway, gateway
from proxy.configuration import read_policies, read_snapshot
from proxy.errors import ProxyError, Unready
from proxy.pages.app import add_error_handlers
from proxy.pages.health import PolicyNotes
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.store import Store, open_store
from tests.fakes.asgi import AsgiConnection, answer_of_app, refusal, scope
from tests.fakes.board import Overview
from tests.fakes.clock import run_in_instant_time
from tests.fakes.databases import migrated_sqlite
from tests.fakes.offline import offline_store

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
) -> AsgiConnection:
    head = scope(path, method, {"authorization": "", **headers})
    return await answer_of_app(running.app, head, AsgiConnection([sent]))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    migrated_sqlite(tmp_path / "gateway" / "thriftgate.db")
    return Settings(folder=tmp_path / "gateway", drain_grace=5.0)


SIGN_IN = "/admin/sign-in"


def with_token(settings: Settings, **fields: Any) -> Settings:
    return Settings(**{**settings.model_dump(), "admin_token": TOKEN, **fields})


async def signed_in(running: Gateway) -> str:
    """The cookie of a session."""
    opened = await got(running, "/admin/sign-in", "POST", f"token={TOKEN}".encode())
    assert opened.status == 303
    return opened.headers["set-cookie"].partition(";")[0]


def test_where_there_is_no_token_a_link_signs_in_and_an_empty_token_does_not(
    settings: Settings,
) -> None:
    async def work(running: Gateway, key: str) -> None:
        closed = await got(running, "/admin/objectives", authorization=f"Bearer {key}")
        assert (closed.status, closed.headers["location"].partition("?")[0]) == (303, SIGN_IN)
        assert (await got(running, SIGN_IN, "POST", b"token=")).status == 401
        now = time.time()  # noqa: TID251 - the gateway's own clock
        code = running.store.users.create_first_link(now)
        opened = await got(running, SIGN_IN, "POST", f"code={code}".encode())
        cookie = opened.headers["set-cookie"].partition(";")[0]
        page = await got(running, "/admin/objectives", cookie=cookie)
        assert (opened.status, page.status) == (303, 200)

    within(settings, work)


def test_the_token_opens_the_pages_and_nothing_else(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        cookie = await signed_in(running)
        page = await got(running, "/admin/objectives", cookie=cookie)
        assert page.status == 200
        assert "There are no objectives yet" in page.body.decode()
        for path in ("/v1/models", "/v1/thriftgate/calls/call_1"):
            assert (await got(running, path, cookie=cookie)).status == 401
            answer = await got(running, path, authorization=f"Bearer {TOKEN}")
            assert (answer.status, refusal(answer)["code"]) == (401, "invalid_api_key")
        call = await got(running, "/v1/chat/completions", "POST", b"{}", cookie=cookie)
        assert (call.status, refusal(call)["code"]) == (401, "missing_api_key")
        assert (await got(running, "/v1/models", authorization=f"Bearer {key}")).status == 200

    within(with_token(settings), work)


def test_the_list_of_models_has_a_call_id(settings: Settings) -> None:
    async def work(running: Gateway, key: str) -> None:
        names = set()
        for path in ("/v1/models", "/v1/models", "/v1/models/gpt-4o", "/v1/models/none"):
            answer = await got(running, path, authorization=f"Bearer {key}")
            assert answer.status == (404 if path.endswith("none") else 200)
            names.add(answer.headers["x-request-id"])
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
    lines = (
        'name = "day"',
        'scope = "organization"',
        'limit = "5"',
        'unit = "usd"',
        'window = "day"',
    )
    file.write_text("\n".join(("[[budgets]]", *lines)))

    async def work(running: Gateway, key: str) -> None:
        page = (await got(running, "/admin/budgets", cookie=await signed_in(running))).body.decode()
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
    """Beside the page's own tests, as the pages' package knows no policies' files."""
    nothing = Overview(objectives=[], reroutes=[], rerouted_calls=[], counters=[], open_alerts=[])
    viewer = Viewer(name="ann", role=Role.ADMIN)
    common = {"viewer": viewer, "now": NOW, "section": "objectives", "may_pin": True}
    common |= {"may_set": False, "setup": None}
    html = pages.render("objectives.html", {**common, "shown": nothing, "rerouted_calls": []})
    html += pages.render(
        "budgets.html",
        {
            **common,
            "counters": [],
            "alerts": AlertsView(alerts=[], total=0),
            "sinks": None,
            "stored": [],
            "are_kept": False,
        },
    )
    snippets = re.findall(r"<code>(\[\[.*?)</code>", html, re.DOTALL)
    file = tmp_path / "policies.toml"
    file.write_text("\n\n".join(snippets).replace("&#34;", '"'))

    read = read_policies(Settings(policies=file))
    every = (read.objectives, read.budgets, read.ceilings, read.sinks)
    assert [len(policies) for policies in every] == [1, 1, 1, 1]


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


def test_a_gateway_without_a_key_of_any_upstream_is_ready_and_says_so(
    settings: Settings, tmp_path: Path
) -> None:
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(
        "[upstreams.openai]\n"
        'kind = "openai"\nbase_url = "https://a.example/v1"\nkey_env = "NOWHERE_KEY"\n'
    )
    keyless = settings.model_copy(update={"catalog": catalog})

    async def run(chosen: Settings) -> dict[str, Any]:
        async with gateway(chosen) as running:
            status, text = await readiness(running)
            assert status == 200
            return text

    (note,) = asyncio.run(run(keyless))["notes"]
    assert "No upstream has the key it needs" in note
    assert asyncio.run(run(settings)) == {"status": "ready", "troubles": []}


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("POST", 405), ("HEAD", 200)])
def test_the_root_names_the_paths_of_calls_and_of_the_dashboard(
    settings: Settings, method: str, status: int
) -> None:
    async def run() -> AsgiConnection:
        async with gateway(settings) as running:
            return await got(running, "/", method)

    answer = asyncio.run(run())
    assert answer.status == status
    if status == 405:
        assert "/v1/…" in refusal(answer)["message"]
        assert "/admin" in refusal(answer)["message"]


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


def answer_to(error: ProxyError) -> AsgiConnection:
    return run_in_instant_time(answer_of_app(failing_page(error), scope("/page", "GET")))


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
    lost = run_in_instant_time(answer_of_app(failing_page(), scope(path, method)))

    assert (lost.status, refusal(lost)["code"]) == (status, code)
    assert lost.headers["x-should-retry"] == "false"
    assert lost.headers.get("allow") == ("GET" if status == 405 else None)


def test_a_bug_behind_a_page_is_a_bare_500_and_is_raised_to_be_logged(caplog):
    connection = AsgiConnection()
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        run_in_instant_time(
            answer_of_app(
                failing_page(RuntimeError("at /etc/secret")), scope("/page", "GET"), connection
            )
        )

    assert (connection.status, refusal(connection)["code"]) == (500, "internal_error")
    assert b"secret" not in connection.body
    assert "call_0" in caplog.text


NO_TEAM = "objectives.chat.team: there is no team nobody"


@pytest.fixture
def aimless(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with an objective for a team that does not exist."""
    policies = tmp_path / "policies.toml"
    policies.write_text(
        '[[objectives]]\nname = "chat"\nteam = "nobody"\nmetric = "ttft"\np = 95\nunder = "1s"\n'
    )
    return settings.model_copy(update={"policies": policies})


def test_policy_that_applies_to_no_call_is_logged_at_start_and_noted(
    aimless: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> list[str]:
        async with gateway(aimless) as running:
            notes: list[str] = []
            for _ in range(1000):
                await asyncio.sleep(0.01)
                notes = (await readiness(running))[1].get("notes", [])
                if notes:
                    break
            return notes

    assert asyncio.run(run()) == [NO_TEAM]
    assert [line for line in caplog.messages if line.startswith("objectives")] == [
        f"{NO_TEAM}; `thriftgate team list` shows them"
    ]


def test_note_on_a_policy_is_logged_once_and_goes_when_its_team_comes(
    aimless: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    opened = open_store(aimless)
    reloader = Reloader(aimless, read_snapshot(aimless), lambda: NOW)
    policies = PolicyNotes(opened, reloader, lambda: NOW)

    async def run() -> list[list[str]]:
        await policies.refresh()
        await policies.refresh()
        before = list(policies.notes())
        opened.teams.create("nobody", now=NOW)
        await policies.refresh()
        return [before, list(policies.notes())]

    assert asyncio.run(run()) == [[NO_TEAM], []]
    assert len([line for line in caplog.messages if line.startswith(NO_TEAM)]) == 1
    opened.close(5.0)
