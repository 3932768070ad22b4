"""A gateway whose database is away when it starts: it waits, unready, and serves once it is there.

Each gateway is a process of its own, behind a wire to PostgreSQL that is cut at first.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from proxy.api.connections.starting import STARTING
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.postgres import SERVER, schema
from tests.fakes.serve_process import ServeProcess, serve_process
from tests.fakes.wire_cut import WireCut

_DEADLINE_S = 30.0


@pytest.fixture
def wire() -> Iterator[WireCut]:
    server = urlsplit(SERVER)
    with WireCut(server.hostname or "", server.port or 5432) as wire:
        yield wire


@pytest.fixture
def gateway(tmp_path: Path, wire: WireCut) -> Iterator[ServeProcess]:
    """A gateway with tables and a key, not started yet, whose database is away."""
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({SERVER}): {error}")
    with schema() as direct, running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog):
        parts = urlsplit(direct)
        user, _, _ = parts.netloc.rpartition("@")
        url = parts._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()
        with serve_process(tmp_path, catalog, url) as running:
            wire.close_connections()
            yield running


def call(gateway: ServeProcess) -> tuple[int, http.client.HTTPMessage, dict[str, Any]]:
    """The answer to a chat completion: status, headers and body."""
    with closing(http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)) as caller:
        messages = [{"role": "user", "content": "Say hello."}]
        body = json.dumps({"model": "gpt-lab", "messages": messages})
        headers = {
            "authorization": f"Bearer {gateway.key}",
            "content-type": "application/json",
            "origin": "https://app.example.com",
        }
        caller.request("POST", "/v1/chat/completions", body, headers)
        answer = caller.getresponse()
        return answer.status, answer.headers, json.loads(answer.read())


def wait_until(holds: Callable[[], bool], gateway: ServeProcess) -> None:
    until = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < until, gateway.log()
        time.sleep(0.05)


def test_a_gateway_without_its_database_is_alive_unready_and_refuses_calls_with_503(
    gateway: ServeProcess,
) -> None:
    gateway.start_listening(THRIFTGATE_CORS_ORIGINS="https://app.example.com")

    assert gateway.probe("/healthz") == (200, {"status": "ok"})
    assert gateway.probe("/readyz") == (503, {"status": "not ready", "troubles": [STARTING]})
    status, headers, body = call(gateway)
    assert (status, headers["retry-after"]) == (503, "5")
    assert body["error"]["code"] == "database_unavailable"
    assert headers["x-request-id"].startswith("call_")
    assert headers["access-control-allow-origin"] == "https://app.example.com"


def test_a_waiting_gateway_answers_calls_once_its_database_is_there(
    gateway: ServeProcess, wire: WireCut
) -> None:
    gateway.start_listening()
    wait_until(lambda: call(gateway)[0] == 503, gateway)

    wire.mend()
    wait_until(lambda: gateway.probe("/readyz")[0] == 200, gateway)

    assert call(gateway)[0] == 200
    assert gateway.stop() == 0
    assert gateway.log().count("The database is not available yet") == 1
    assert gateway.log().count("The database is available after") == 1


def test_a_waiting_gateway_that_is_told_to_stop_exits_with_0_at_once(gateway: ServeProcess) -> None:
    gateway.start_listening()
    wait_until(lambda: gateway.probe("/healthz")[0] == 200, gateway)

    began = time.monotonic()
    status = gateway.stop()

    assert status == 0
    assert time.monotonic() - began < 4
    assert gateway.log().endswith("Thriftgate stopped.\n")
    assert "Traceback" not in gateway.log()


def test_a_waiting_gateway_exits_if_a_newer_version_has_migrated_the_tables(
    gateway: ServeProcess, wire: WireCut
) -> None:
    with psycopg.connect(SERVER, autocommit=True) as database:
        tables = Identifier(gateway.database_url.rpartition("search_path%3D")[2])
        newer = SQL("UPDATE {}.alembic_version SET version_num = '9999'")
        database.execute(newer.format(tables))
    gateway.start_listening()

    wire.mend()

    assert gateway.wait() == 1
    assert "tables are at revision 9999" in gateway.log()
    assert "Traceback" not in gateway.log()
