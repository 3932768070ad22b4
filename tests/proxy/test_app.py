"""The composition root: what it builds, in which order it closes, and what its pages answer."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import SecretStr

from proxy.app import Gateway, gateway
from proxy.configuration import read_catalog
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.journal.journal import Journal
from proxy.store.store import Store
from slo.toml.problems import InvalidFile
from tests.fakes.asgi import AsgiConnection, answer_of_app, refusal, scope
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import a_receipt

AnyStore = TypeVar("AnyStore", bound=Store)
NOW = 1_790_000_000.0
UPSTREAM = """
[upstreams.nowhere]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
key_env = "NOWHERE_KEY"

[[models]]
id = "gpt-nowhere"
upstream = "nowhere"
price = { input = "1.00", output = "4.00" }
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    mine = tmp_path / "mine.toml"
    mine.write_text(UPSTREAM)
    monkeypatch.delenv("NOWHERE_KEY", raising=False)
    migrated_sqlite(tmp_path / "gateway" / "thriftgate.db")
    return Settings(folder=tmp_path / "gateway", catalog=mine, retries=0, drain_grace=5.0)


def open_store(kind: type[AnyStore], settings: Settings) -> AnyStore:
    """The store that these settings name."""
    url = f"sqlite:///{settings.folder / 'thriftgate.db'}"
    return kind.open(url, settings.folder / "journal")


@asynccontextmanager
async def gateway_and_key(
    settings: Settings, store: Store | None = None
) -> AsyncIterator[tuple[Gateway, str]]:
    """A gateway and a key of its one team."""
    async with gateway(settings, store) as running:
        team = running.store.teams.create("acme", now=NOW)
        _, key = running.store.teams.create_key(team.id, "first", now=NOW)
        yield running, key


def within(
    settings: Settings,
    work: Callable[[Gateway, str], Awaitable[None]],
    store: Store | None = None,
) -> None:
    async def run() -> None:
        async with gateway_and_key(settings, store) as (running, key):
            await work(running, key)

    asyncio.run(run())


async def got(running: Gateway, path: str, key: str = "", method: str = "GET") -> AsgiConnection:
    authorization = f"Bearer {key}" if key else ""
    place, _, query = path.partition("?")
    head = scope(place, method, {"authorization": authorization}, query)
    return await answer_of_app(running.app, head)


def error(connection: AsgiConnection) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(connection.body)
    assert set(content) == {"error"}
    assert set(content["error"]) - {"upstream"} == {"message", "type", "param", "code"}
    return dict(content["error"])


def test_a_call_goes_all_the_way_to_its_upstream_and_into_the_ledger(settings):
    async def work(running: Gateway, key: str) -> None:
        sent = b'{"model":"gpt-nowhere","messages":[{"role":"user","content":"hi"}]}'
        head = scope(headers={"authorization": f"Bearer {key}"})
        connection = await answer_of_app(running.app, head, AsgiConnection([sent]))
        assert connection.status == 503
        assert "set NOWHERE_KEY" in error(connection)["message"]
        call_id = connection.headers["x-request-id"]
        assert running.store.drain.flush(10)
        page = await got(running, f"/v1/thriftgate/calls/{call_id}", key)
        assert page.status == 200
        assert call_id in page.body.decode()

    within(settings, work)


def test_the_users_catalog_lies_over_the_shipped_one(settings):
    assert {"openai", "anthropic", "nowhere"} <= set(read_catalog(settings).upstreams)
    assert "nowhere" not in read_catalog(Settings()).upstreams


def test_the_api_of_caches_names_the_stake_of_the_settings(settings):
    chosen = settings.model_copy(
        update={"learning_stake": 0.25, "admin_token": SecretStr("an-admin-token-of-24-chars")}
    )

    async def work(running: Gateway, _key: str) -> None:
        signing = scope("/admin/sign-in", "POST", {"authorization": ""})
        token = b"token=an-admin-token-of-24-chars"
        opened = await answer_of_app(running.app, signing, AsgiConnection([token]))
        cookie = opened.headers["set-cookie"].partition(";")[0]
        asking = scope("/api/v1/cache", "GET", {"authorization": "", "cookie": cookie})
        answer = await answer_of_app(running.app, asking, AsgiConnection([b""]))
        assert json.loads(answer.body)["marks"]["max_loss_nanos"] == 250_000_000

    within(chosen, work)


def test_a_bad_catalog_starts_nothing(settings, tmp_path):
    (tmp_path / "mine.toml").write_text("[upstreams.mine]\n")
    new = settings.model_copy(update={"folder": tmp_path / "new"})

    async def work() -> None:
        async with gateway(new):
            raise AssertionError

    with pytest.raises(InvalidFile):
        asyncio.run(work())
    assert not new.folder.exists()


def test_leaving_drains_the_journal_and_ends_every_thread(settings):
    before = set(threading.enumerate())

    async def work() -> None:
        async with gateway_and_key(settings) as (running, _):
            team = running.store.teams.all()[0].id
            for n in range(50):
                running.store.keep(a_receipt(n, team=team))

    asyncio.run(work())
    assert {t for t in threading.enumerate() if t.name.startswith("store")} <= before
    store = Store.open(
        f"sqlite:///{settings.folder / 'thriftgate.db'}", settings.folder / "journal"
    )
    try:
        team = store.teams.all()[0].id
        for n in range(50):
            assert len(store.ledger.call_receipts(a_receipt(n).call_id, team)) == 1
    finally:
        assert store.close(5)


@pytest.mark.parametrize(
    ("has_segments", "message"),
    [
        (True, "Receipts stay in the journal; the next start puts them into the ledger"),
        (False, "The ledger may lack receipts: the journal's segments are gone from {folder}"),
    ],
)
def test_receipts_that_could_not_be_drained_are_logged(settings, caplog, has_segments, message):
    class Unhurried(Store):
        def close(self, deadline: float) -> bool:
            assert deadline == 5.0
            super().close(deadline)
            if has_segments:
                (settings.folder / "journal" / "other.segment").touch()
            return False

    async def work() -> None:
        async with gateway(settings, open_store(Unhurried, settings)) as running:
            assert isinstance(running.store, Unhurried)

    asyncio.run(work())
    assert [record.message for record in caplog.records if record.name == "thriftgate"] == [
        message.format(folder=settings.folder / "journal")
    ]


def test_old_receipts_are_dropped_while_it_runs(settings):
    ancient = a_receipt(0, call_id=f"call_{1_000_000_000:012x}7{0:019x}", team="team_0")
    dropped = threading.Event()

    class RecordingStore(Store):
        async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await super().ask(question, *args, **kwargs)
            finally:
                if question == self.ledger.retain:
                    dropped.set()

    store = open_store(RecordingStore, settings)
    store.keep(ancient)
    assert store.drain.flush(10)
    assert store.ledger.count_calls() == 1

    async def work() -> None:
        async with gateway(settings, store):
            await asyncio.get_running_loop().run_in_executor(None, dropped.wait, 10)
            assert store.ledger.count_calls() == 0

    asyncio.run(work())


def test_a_receipt_that_cannot_be_read_now_is_worth_a_retry(settings):
    class UnavailableStore(Store):
        async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
            if question == self.ledger.call_receipts:
                raise StoreError("away")
            return await super().ask(question, *args, **kwargs)

    async def work(running: Gateway, key: str) -> None:
        away = await got(running, f"/v1/thriftgate/calls/call_{32 * '0'}", key)
        assert (away.status, refusal(away)["code"]) == (503, "ledger_unavailable")
        assert away.headers["retry-after"] == "5"
        assert "x-should-retry" not in away.headers

    within(settings, work, open_store(UnavailableStore, settings))


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/", "GET", 405),
        ("/nowhere", "GET", 404),
        ("/docs", "GET", 404),
        ("/redoc", "GET", 404),
        ("/openapi.json", "GET", 404),
        ("/v2/chat/completions", "POST", 404),
        ("/healthz", "POST", 405),
        ("/v1/models", "DELETE", 405),
    ],
)
def test_an_unknown_path_is_reported_in_the_error_envelope(settings, path, method, status):
    async def work(running: Gateway, key: str) -> None:
        connection = await got(running, path, key, method)
        assert connection.status == status
        assert connection.headers["content-type"] == "application/json"
        assert error(connection)["message"]
        assert ("allow" in connection.headers) == (status == 405)

    within(settings, work)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/gpt-nowhere", "/v1/thriftgate/calls/x"])
def test_pages_with_secrets_ask_for_a_key(settings, path):
    async def work(running: Gateway, key: str) -> None:
        for wrong in ("", "tg-wrong"):
            connection = await got(running, path, wrong)
            assert connection.status == 401
            assert error(connection)["code"]
        (record,) = running.store.teams.keys(running.store.teams.all()[0].id)
        assert (await got(running, path, key)).status in {200, 404}
        assert running.store.teams.revoke(record.id, now=NOW)
        running.store.keyring.refresh()
        assert (await got(running, path, key)).status == 401

    within(settings, work)


def test_models_are_those_of_the_read_catalog(settings):
    async def work(running: Gateway, key: str) -> None:
        listed = json.loads((await got(running, "/v1/models?all=1", key)).body)
        assert {model["id"] for model in listed["data"]} == set(running.catalog.models)
        unknown = await got(running, "/v1/models/none", key)
        assert (unknown.status, error(unknown)["type"]) == (404, "invalid_request_error")

    within(settings, work)


def test_models_are_listed_while_a_route_has_its_key_and_does_not_fail(settings, monkeypatch):
    sent = b'{"model":"gpt-nowhere","messages":[{"role":"user","content":"hi"}]}'

    async def lists_model(running: Gateway, key: str, query: str = "") -> bool:
        content = json.loads((await got(running, f"/v1/models{query}", key)).body)
        return "gpt-nowhere" in {model["id"] for model in content["data"]}

    async def without_key(running: Gateway, key: str) -> None:
        assert not await lists_model(running, key)
        assert await lists_model(running, key, "?all=1")

    async def with_key(running: Gateway, key: str) -> None:
        assert await lists_model(running, key)
        head = scope(headers={"authorization": f"Bearer {key}"})
        for _ in range(5):
            assert (await answer_of_app(running.app, head, AsgiConnection([sent]))).status == 502
        assert not await lists_model(running, key)
        assert await lists_model(running, key, "?all=1")

    within(settings, without_key)
    monkeypatch.setenv("NOWHERE_KEY", "k")
    within(settings.model_copy(update={"folder": settings.folder / "second"}), with_key)


def test_other_origins_are_let_in_by_the_setting_alone(settings):
    async def allowed_origin(running: Gateway) -> str | None:
        head = scope(headers={"origin": "https://a.example", "authorization": ""})
        return (await answer_of_app(running.app, head)).headers.get("access-control-allow-origin")

    async def expect_closed(running: Gateway, _key: str) -> None:
        assert await allowed_origin(running) is None

    async def expect_open(running: Gateway, _key: str) -> None:
        assert await allowed_origin(running) == "https://a.example"

    within(settings, expect_closed)
    other = {"folder": settings.folder / "second", "cors_origins": ("https://a.example",)}
    within(settings.model_copy(update=other), expect_open)


def test_probes_need_no_key_and_say_what_is_wrong(settings, monkeypatch):
    monkeypatch.setenv("NOWHERE_KEY", "sk-test")

    async def work(running: Gateway, key: str) -> None:
        assert (await got(running, "/healthz")).status == 200
        assert json.loads((await got(running, "/readyz")).body) == {
            "status": "ready",
            "troubles": [],
        }
        metrics = await got(running, "/metrics")
        assert b"thriftgate_" in metrics.body

    within(settings, work)


def test_a_gateway_that_is_not_ready_says_why(settings, monkeypatch):
    monkeypatch.setenv("NOWHERE_KEY", "sk-test")

    class BrokenJournal(Journal):
        @property
        def trouble(self) -> str:
            return "The disk is full."

    store = open_store(Store, settings)
    store.journal.close()
    store.journal = BrokenJournal(settings.folder / "journal")

    async def work(running: Gateway, _key: str) -> None:
        unready = await got(running, "/readyz")
        assert unready.status == 503
        assert json.loads(unready.body) == {
            "status": "not ready",
            "troubles": ["The disk is full."],
        }

    within(settings, work, store)


def test_a_gateway_that_cannot_keep_receipts_takes_no_calls(settings):
    class Full(Journal):
        is_full = True

    store = open_store(Store, settings)
    store.journal.close()
    store.journal = Full(settings.folder / "journal")

    async def work(running: Gateway, key: str) -> None:
        call = await got(running, "/v1/chat/completions", key, "POST")
        assert (call.status, error(call)["code"]) == (503, "ledger_unavailable")
        assert (await got(running, "/v1/models", key)).status == 200

    within(settings, work, store)


def test_unlisted_models_pass_only_where_a_key_is_set_and_where_the_setting_lets_them(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    catalog = read_catalog(Settings())

    assert catalog.unlisted_model("ft:gpt-4.1:acme::abc") is not None
    assert catalog.unlisted_model("claude-opus-9") is None
    assert read_catalog(Settings(pass_unlisted_models=False)).unlisted_model("gpt-4") is None
