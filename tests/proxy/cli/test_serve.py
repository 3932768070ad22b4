"""``thriftgate serve`` from its first key to its last receipt, in a process of its own."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.cli import session
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.records.feature_mode import LayoutScope
from proxy.store.sql.ids import id_floor
from proxy.store.store import Store
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.free_port import free_port
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.receipts import a_receipt
from tests.proxy.cli.typed_commands import KEY, SERVE, command_error, command_output

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("is_option", [True, False], ids=["option", "variable"])
def test_a_port_that_is_taken_is_reported(is_option: bool):  # noqa: FBT001 - a parameter
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        error = (
            command_error("serve", "--port", port)
            if is_option
            else command_error("serve", port=port)
        )

    assert "is taken" in error
    assert "THRIFTGATE_PORT" in error


@pytest.mark.parametrize("host", ["203.0.113.1", "no.such.host.invalid", "2001:db8::1"])
def test_an_address_of_another_machine_is_reported(host):
    assert "THRIFTGATE_HOST" in command_error("serve", host=host)


@contextmanager
def serving(folder: Path, settings: Mapping[str, str], *options: str) -> Iterator[ForkedCommand]:
    """``thriftgate serve`` in a process of its own, which is killed if it does not end."""
    environment = {**os.environ, "THRIFTGATE_PORT": "0", **settings}  # noqa: TID251 - the child's
    process = ForkedCommand(["serve", *options], environment, folder / "stdout", folder / "stderr")
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


@contextmanager
def serving_from_a_cold_start(
    folder: Path, settings: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """The same, by an interpreter that has imported nothing yet."""
    with (
        (folder / "stdout").open("wb") as stdout,
        (folder / "stderr").open("wb") as stderr,
        subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", SERVE, "serve"],
            env={**os.environ, "THRIFTGATE_PORT": "0", **settings},  # noqa: TID251 - the child's
            stdout=stdout,
            stderr=stderr,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def introduction(folder: Path) -> str:
    """Return what it prints until it listens."""
    wait_for(folder / "stdout", "/v1\n")
    return (folder / "stdout").read_text()


def first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


def wait_until_ready(port: int) -> None:
    """Wait until calls are answered; where the ledger opens slowly, it listens before."""
    end, status = time.monotonic() + 30, 0
    while status != 200:
        assert time.monotonic() < end
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            caller.request("GET", "/readyz")
            status = caller.getresponse().status
        time.sleep(0.02)


def test_serving_warns_of_a_redis_that_is_away(tmp_path):
    with serving(tmp_path, {"THRIFTGATE_REDIS_URL": "redis://:secret@127.0.0.1:1/0"}):
        introduction(tmp_path)
    warned = (tmp_path / "stderr").read_text()

    assert "WARNING thriftgate THRIFTGATE_REDIS_URL: Redis cannot be reached" in warned
    assert "secret" not in warned


def test_the_command_for_another_link_names_the_port_that_only_serve_was_given(tmp_path):
    port = free_port()
    with serving(tmp_path, {}, "--port", str(port)):
        wait_for(tmp_path / "stdout", "admin link\n")
    introduced = (tmp_path / "stdout").read_text()

    assert f"Dashboard: http://127.0.0.1:{port}/admin" in introduced
    assert f"More: THRIFTGATE_PORT={port} thriftgate admin link\n" in introduced


def test_an_engine_that_does_not_answer_is_not_said_to_be_ready(tmp_path):
    file = tmp_path / "engines.toml"
    with closing(socket.create_server(("127.0.0.1", 0))) as up:
        urls = f"http://127.0.0.1:{up.getsockname()[1]}/v1", "http://127.0.0.1:1/v1"
        file.write_text(
            '[engines.chat]\nengine = "vllm"\nserved_name = "chat"\n'
            f"replicas = {json.dumps(urls)}\n"
        )
        with serving(tmp_path, {"THRIFTGATE_ENGINES": str(file)}):
            output = introduction(tmp_path)

    assert re.search(r"Upstreams ready: .*chat:0", output)
    assert not re.search(r"Upstreams ready: .*chat:1", output)
    assert "Engine chat:1 is not ready: connection refused at http://127.0.0.1:1/v1" in output


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_serving_begins_with_a_key_that_works_and_ends_with_every_receipt(how, tmp_path, folder):
    migrated_sqlite(folder / "thriftgate.db")
    with (
        running_in_thread(lambda: running_simulator(tmp_path, time_scale=0.2)) as (_, catalog),
        serving_from_a_cold_start(
            tmp_path, {"THRIFTGATE_CATALOG": str(catalog), "SIMULATOR_KEY": "simulator-key"}
        ) as process,
    ):
        output = introduction(tmp_path)
        port, key = (
            int(first_group(r"127\.0\.0\.1:(\d+)/v1", output)),
            first_group(f"({KEY.pattern})", output),
        )
        wait_until_ready(port)
        assert str(folder / "thriftgate.db") in output
        assert str(catalog) in output
        assert re.search(r"Upstreams ready: .*lab", output)
        assert "openai (OPENAI_API_KEY)" in output
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            messages = [{"role": "user", "content": "Say something long."}]
            body = json.dumps({"model": "gpt-lab", "stream": True, "messages": messages})
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            caller.request("POST", "/v1/chat/completions", body, headers)
            answer = caller.getresponse()
            assert answer.status == 200
            first = answer.readline()
            process.send_signal(how)
            rest = answer.read()
        assert process.wait(20) == 0
    assert first.startswith(b"data: ")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert (tmp_path / "stderr").read_text() == "Thriftgate stopped.\n"
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (1,)


def test_a_hangup_signal_reloads_and_a_bad_file_is_named_with_its_line(tmp_path):
    catalog = tmp_path / "catalog.toml"
    catalog.write_text("")
    with serving(tmp_path, {"THRIFTGATE_CATALOG": str(catalog)}) as process:
        introduction(tmp_path)
        process.send_signal(signal.SIGHUP)
        wait_for(tmp_path / "stderr", f"Reloaded: {len(session.shipped_catalog().models)} models")
        catalog.write_text('[upstreams.mine]\nkind = "openai"\nbase_url = "up"\n')
        process.send_signal(signal.SIGHUP)
        wait_for(tmp_path / "stderr", f"{catalog}:3: upstreams.mine.base_url")
        assert process.poll() is None


@pytest.mark.parametrize("share", ["0.05", "0"])
def test_serving_begins_with_what_was_saved_and_could_be(share, tmp_path, folder):
    command_output("team", "create", "acme")
    now = session.now()
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")
    team = store.teams.all()[0].id
    planned: dict[str, Any] = {
        "conversation": "c",
        "arm": "treated",
        "planning_nanos": 4_000_000_000,
        "cost_nanos": 1_000_000_000,
        "list_nanos": 1_000_000_000,
    }
    call_id = id_floor(now)
    store.keep(a_receipt(call_id=call_id, started=now, team=team, feature="chat", **planned))
    move = LayoutMove(
        before=None,
        after=None,
        slot=PromptSlot.VARIABLE,
        label="time",
        calls=180,
        saving=2_500_000_000,
    )
    moves = msgspec.json.encode(Layout(moves=(move,))).decode()
    store.layouts.propose(LayoutScope(team, "chat", "gpt"), "digest", moves, now)
    assert store.close(20)
    environment = {"THRIFTGATE_CONTROL_SHARE": share, "THRIFTGATE_PLANNING": "observe"}
    with serving(tmp_path, environment) as process:
        introduction(tmp_path)
        last = "chat 1 --family gpt`." if share == "0" else "of feature chat of team acme.\n"
        wait_for(tmp_path / "stderr", last)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    saved, could, *rest = (tmp_path / "stderr").read_text().splitlines()

    assert saved.startswith("Saved $4")
    assert saved.endswith("against sending directly: $1 in place of $5, by estimate.")
    assert could == (
        "A layout of feature chat of team acme waits for approval: it should save $2.50"
        " per 1,000 calls more (by estimate from 180 calls)."
        " To apply it: `thriftgate layout approve acme chat 1 --family gpt`."
    )
    needed = "A measured figure needs some 60 more conversations of feature chat of team acme."
    assert rest == [*([needed] if share != "0" else []), "Thriftgate stopped."]


def wait_for(file: Path, text: str) -> None:
    end = time.monotonic() + 30
    file.touch()
    while text not in file.read_text():
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.05)


def test_a_second_signal_cuts_running_calls_and_loses_none_of_their_receipts(tmp_path, folder):
    migrated_sqlite(folder / "thriftgate.db")
    with (
        running_in_thread(lambda: running_simulator(tmp_path, time_scale=0.2)) as (_, catalog),
        serving(
            tmp_path, {"THRIFTGATE_CATALOG": str(catalog), "SIMULATOR_KEY": "simulator-key"}
        ) as process,
    ):
        output = introduction(tmp_path)
        port, key = (
            int(first_group(r"127\.0\.0\.1:(\d+)/v1", output)),
            first_group(f"({KEY.pattern})", output),
        )
        wait_until_ready(port)
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as caller:
            messages = [{"role": "user", "content": "[[fault:stall]] Say something."}]
            body = json.dumps({"model": "gpt-lab", "stream": True, "messages": messages})
            headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            caller.request("POST", "/v1/chat/completions", body, headers)
            answer = caller.getresponse()
            assert answer.readline().startswith(b"data: ")
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            rest = answer.read()
        assert process.wait(15) == 0
    assert b"gateway_interrupted" in rest
    errors = (tmp_path / "stderr").read_text()
    assert errors.endswith("Thriftgate stopped.\n")
    assert "Traceback" not in errors
    with closing(sqlite3.connect(folder / "thriftgate.db")) as database:
        rows = database.execute("SELECT outcome, error, estimated FROM calls").fetchall()
    assert rows == [("broken", "gateway_interrupted", 1)]


@pytest.mark.parametrize(("command", "is_ignored"), [("serve", True), ("check", False)])
def test_a_hangup_before_the_gateway_can_reload_does_not_end_it(command, is_ignored):
    script = (
        "import signal, sys\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # nohup leaves it ignored
        f"sys.argv = ['thriftgate', '{command}', '--help']\n"
        "from proxy.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)  # noqa: S603 - our own script

    assert ran.stdout.split()[-1] == str(is_ignored).encode()
