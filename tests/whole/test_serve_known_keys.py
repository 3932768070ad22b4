"""A gateway that serves the keys it knows while its database is away at start.

Each gateway is a process of its own, behind a wire to PostgreSQL that is cut between two starts.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from proxy.api.connections.starting import OFFLINE, STARTING
from proxy.cli.session import now
from proxy.errors import OperatorError
from proxy.store.sql.access.known_keys import FILE_NAME, read_known_keys
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import open_database
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.postgres import SERVER, schema
from tests.fakes.redis_keys import SERVER as REDIS
from tests.fakes.serve_process import ServeProcess, serve_process
from tests.fakes.wire_cut import WireCut

_DEADLINE_S = 60.0
_DAY_S = 86_400.0
_READY = {"status": "ready", "troubles": []}


class Installation:
    """A gateway that has run with its database, and was killed; its database is away now.

    Attributes:
        direct: The database's URL, past the wire.
        wire: What the gateway reaches its database by.
        revoked: A key that was revoked before.
    """

    def __init__(self, gateway: ServeProcess, direct: str, wire: WireCut) -> None:
        self.gateway = gateway
        self.direct = direct
        self.wire = wire
        self.revoked = ""

    @property
    def file(self) -> Path:
        return self.gateway.folder / FILE_NAME

    def start(self, age: str = "24h", **settings: str) -> None:
        self.gateway.start_listening(THRIFTGATE_SERVE_KNOWN_KEYS=age, **settings)

    def run_once(self, **settings: str) -> None:
        """Run the gateway until it has written down a key and a revoked one, and kill it."""
        key, self.revoked = self.new_key()
        with self.teams() as teams:
            teams.revoke(key, now=now())
        self.start(**settings)
        self.wait_until(lambda: self.keys_by_revocation() == {False: 1, True: 1})
        self.gateway.kill()
        self.wire.close_connections()

    def keys_by_revocation(self) -> dict[bool, int]:
        """Number of keys were written down, by whether they are revoked."""
        try:
            known_keys = read_known_keys(self.file, self.gateway.database_url, now(), _DAY_S)
        except OperatorError:
            return {}
        revoked = [key.revoked for key in known_keys.by_hash().values()]
        return {which: revoked.count(which) for which in (False, True)}

    @contextmanager
    def teams(self) -> Iterator[Teams]:
        """The teams in the database, past the wire."""
        engine = open_database(self.direct)
        try:
            yield Teams(engine)
        finally:
            engine.dispose()

    def team(self) -> str:
        with self.teams() as teams:
            return teams.all()[0].id

    def new_key(self) -> tuple[str, str]:
        """The id and the secret of a new key."""
        team = self.team()
        with self.teams() as teams:
            key, secret = teams.create_key(team, "another", now=now())
        return key.id, secret

    def call(self, key: str = "") -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
        """The answer to a chat completion: status, headers and body."""
        messages = [{"role": "user", "content": "Say hello."}]
        return self.ask("/v1/chat/completions", key, {"model": "gpt-lab", "messages": messages})

    def ask(
        self, path: str, key: str = "", body: object = None
    ) -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
        with closing(http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=30)) as to:
            headers = {
                "authorization": f"Bearer {key or self.gateway.key}",
                "content-type": "application/json",
            }
            if body is None:
                to.request("GET", path, headers=headers)
            else:
                to.request("POST", path, json.dumps(body), headers)
            answer = to.getresponse()
            return answer.status, answer.headers, json.loads(answer.read())

    def wait_until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + _DEADLINE_S
        while not holds():
            assert time.monotonic() < until, self.gateway.log()
            time.sleep(0.05)

    def is_offline(self) -> bool:
        """True if it is ready, and says that its database is away."""
        status, document = self.gateway.probe("/readyz")
        return (status, document.get("notes")) == (200, [f"degraded: {OFFLINE}"])

    def waits_because(self, why: str) -> bool:
        """True if it is unready and refuses calls, and its log says why."""
        self.wait_until(lambda: why in self.gateway.log())
        unready = (503, {"status": "not ready", "troubles": [STARTING]})
        return self.gateway.probe("/readyz") == unready and self.call()[0] == 503


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    server = urlsplit(SERVER)
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({SERVER}): {error}")
    with (
        WireCut(server.hostname or "", server.port or 5432) as wire,
        schema() as direct,
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
    ):
        parts = urlsplit(direct)
        user, _, _ = parts.netloc.rpartition("@")
        url = parts._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()
        with serve_process(tmp_path, catalog, url) as gateway:
            yield Installation(gateway, direct, wire)


def test_known_keys_are_served_without_the_database_and_nothing_is_lost_when_it_comes(
    installation: Installation,
) -> None:
    gateway = installation.gateway
    installation.run_once()
    _, unseen = installation.new_key()

    installation.start()
    installation.wait_until(installation.is_offline)
    status, headers, _ = installation.call()
    refused, of_refused, document = installation.call(unseen)
    revoked, _, _ = installation.call(installation.revoked)

    assert (status, revoked) == (200, 401)
    # Nobody can tell it from a key that was made since: it may be tried again.
    assert (refused, of_refused["retry-after"]) == (503, "2")
    assert document["error"]["code"] == "keys_unavailable"
    assert "Calls of known keys are answered" in gateway.log()

    pid = gateway.pid
    answered = [headers["x-request-id"]]
    installation.wire.mend()

    def answers_until_ready() -> bool:
        status, headers, _ = installation.call()
        answered.append(headers["x-request-id"])
        assert status == 200
        return gateway.probe("/readyz") == (200, _READY)

    installation.wait_until(answers_until_ready)
    assert installation.call(unseen)[0] == 200
    assert gateway.pid == pid
    assert gateway.stop() == 0
    with psycopg.connect(installation.direct) as database:
        rows = database.execute("SELECT call_id FROM calls WHERE final = 1 ORDER BY 1").fetchall()
    assert set(answered) < {call for (call,) in rows}
    assert "Traceback" not in gateway.log()


def test_calls_of_a_gateway_that_stops_before_the_database_comes_reach_the_next_one_s_ledger(
    installation: Installation,
) -> None:
    gateway = installation.gateway
    installation.run_once()
    installation.start()
    installation.wait_until(installation.is_offline)
    call_id = installation.call()[1]["x-request-id"]
    stopped = gateway.stop()
    installation.wire.mend()
    installation.start()
    installation.wait_until(lambda: installation.ask(f"/v1/thriftgate/calls/{call_id}")[0] == 200)

    assert stopped == 0
    assert "Receipts stay in the journal" in gateway.log()
    assert "Traceback" not in gateway.log()


def test_an_outage_while_it_runs_leaves_it_ready_too(installation: Installation) -> None:
    installation.start()
    installation.wait_until(lambda: installation.gateway.probe("/readyz") == (200, _READY))
    installation.wire.close_connections()
    installation.wait_until(lambda: "notes" in installation.gateway.probe("/readyz")[1])
    status, document = installation.gateway.probe("/readyz")

    assert (status, document["status"], document["troubles"]) == (200, "ready", [])
    assert all("the database" in note for note in document["notes"])
    assert installation.call()[0] == 200


def test_without_the_setting_the_keys_on_disk_are_removed(installation: Installation) -> None:
    installation.run_once()
    installation.wire.mend()
    installation.gateway.start()

    installation.wait_until(lambda: not installation.file.exists())


def test_a_gateway_stops_with_the_reason_if_another_installation_comes_back(
    installation: Installation,
) -> None:
    installation.run_once()
    installation.start()
    installation.wait_until(installation.is_offline)
    with psycopg.connect(installation.direct, autocommit=True) as database:
        database.execute("UPDATE meta SET secret = %s WHERE secret IS NOT NULL", [bytes(32)])
    installation.wire.mend()

    assert installation.gateway.wait() == 1
    assert "The database holds another installation" in installation.gateway.log()
    assert "Traceback" not in installation.gateway.log()
    assert not installation.file.exists()


BUDGET = """
[[budgets]]
name = "few"
scope = "organization"
unit = "requests"
window = "day"
limit = 2
"""


def test_budgets_that_only_the_process_counts_keep_it_waiting(
    installation: Installation, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text(BUDGET)
    installation.run_once(THRIFTGATE_POLICIES=str(policies))
    installation.start(THRIFTGATE_POLICIES=str(policies))

    assert installation.waits_because("Set THRIFTGATE_REDIS_URL")


@pytest.fixture
def counters() -> Iterator[redis.Redis]:
    """The Redis server."""
    with redis.Redis.from_url(REDIS, socket_connect_timeout=3, socket_timeout=3) as server:
        try:
            server.ping()
        except redis.RedisError as error:
            pytest.skip(f"no Redis at THRIFTGATE_TEST_REDIS ({REDIS}): {error}")
        yield server


def with_budget(folder: Path, on_loss: str) -> dict[str, str]:
    """Settings of a gateway whose one budget is counted in Redis."""
    policies = folder / "policies.toml"
    policies.write_text(f'{BUDGET}on_loss = "{on_loss}"\n')
    return {"THRIFTGATE_POLICIES": str(policies), "THRIFTGATE_REDIS_URL": REDIS}


@pytest.mark.usefixtures("counters")
def test_budgets_in_redis_hold_without_the_database(
    installation: Installation, tmp_path: Path
) -> None:
    settings = with_budget(tmp_path, "open")
    installation.run_once(**settings)
    installation.start(**settings)
    installation.wait_until(installation.is_offline)
    statuses = [installation.call()[0] for _ in range(3)]
    installation.wire.mend()
    installation.wait_until(lambda: installation.gateway.probe("/readyz") == (200, _READY))

    assert statuses == [200, 200, 429]
    assert installation.call()[0] == 429
    assert installation.gateway.stop() == 0
    assert "Traceback" not in installation.gateway.log()


def test_closed_budgets_whose_counters_are_lost_refuse_until_the_database_is_there(
    installation: Installation, tmp_path: Path, counters: redis.Redis
) -> None:
    settings = with_budget(tmp_path, "closed")
    installation.run_once(**settings)
    known_keys = read_known_keys(
        installation.file, installation.gateway.database_url, now(), _DAY_S
    )
    organisation = blake2b(known_keys.secret, digest_size=8).hexdigest()
    for key in counters.scan_iter(match=f"thriftgate:{{{organisation}}}:*"):
        counters.delete(key)
    installation.start(**settings)
    installation.wait_until(installation.is_offline)
    status, _, document = installation.call()
    installation.wire.mend()
    installation.wait_until(lambda: installation.call()[0] == 200)

    assert (status, document["error"]["code"]) == (503, "budgets_unavailable")
    assert installation.gateway.stop() == 0
    assert "Traceback" not in installation.gateway.log()
