import asyncio
import json
import logging
import os
import signal
import socket
import threading
from dataclasses import replace

import pytest
from rich.console import Console
from typer import Exit

from proxy.cli.engines.engine_processes import health_probe, serve_engine, sum_metrics
from proxy.cli.engines.engine_status import change_lines, print_engine_status
from proxy.cli.terminal import Terminal
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.state_file import (
    MAX_REPORT_AGE_S,
    ChangeReport,
    EngineStateFile,
    locked_profile,
    profile_folder,
)
from proxy.engines.state.traffic_file import EngineTraffic, ReplicaTraffic, TrafficFile
from proxy.errors import OperatorError
from tests.fakes.engine_gateway import PROFILE, engine_gateway, plan, wait_for_replica
from tests.fakes.engines import engine_plan, is_alive

NOW = 1_790_000_000.0
READY = ReplicaReport(
    name="8001",
    base_url="http://127.0.0.1:8001/v1",
    metrics_url="http://127.0.0.1:8001/metrics",
    state=ProcessState.READY,
    since=NOW,
    pid=4711,
    restarts=2,
)
LOST = replace(
    READY,
    name="8002",
    state=ProcessState.CRASH_LOOP,
    pid=0,
    reason="exited with status 1",
    last_lines=("no such model",),
    log="/data/8002.log",
)


def _no_store():
    raise AssertionError


class _FakeTerminal:
    """A terminal, and what was printed."""

    def __init__(self):
        self.failed = ""
        self._console = Console(width=200, force_terminal=False, color_system=None, markup=False)
        self._console.record = True
        self.terminal = Terminal(_no_store, lambda: NOW, self._console, self._fail)

    def _fail(self, why):
        self.failed = why
        raise Exit(1)

    @property
    def text(self):
        return self._console.export_text(clear=False)


@pytest.fixture
def output():
    return _FakeTerminal()


@pytest.fixture
def kept_state(tmp_path):
    folder = profile_folder(tmp_path, PROFILE)
    folder.mkdir(parents=True)
    EngineStateFile(folder, PROFILE, NOW).write([READY, LOST])
    return folder


def test_engine_serve_drains_on_sigterm_and_ends_with_0(tmp_path):
    with engine_gateway(tmp_path) as process:
        replica = wait_for_replica(tmp_path, "ready")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    name = replica["name"]
    assert output.splitlines() == [
        f"Replica {name}: starting",
        f"Replica {name}: ready at {replica['base_url']}",
        "Draining; a second signal ends the replicas at once.",
        f"Replica {name}: draining",
        f"Replica {name}: stopped",
        "All replicas have stopped.",
    ]
    assert not is_alive(replica["pid"])


def test_kill_9_of_the_gateway_leaves_no_process_behind(tmp_path, output):
    file = tmp_path / "daemon"
    with engine_gateway(tmp_path, "--daemon", str(file)) as process:
        replica = wait_for_replica(tmp_path, "ready")
        daemon = int(file.read_text())
        assert is_alive(daemon)
        process.kill()
        process.wait(60)

    waiting = threading.Event()
    while is_alive(replica["pid"]) or is_alive(daemon):
        waiting.wait(0.02)
    print_engine_status(output.terminal, tmp_path)
    assert f"not running. Process {process.pid}, which supervised it" in output.text


def test_engine_serve_ends_with_1_once_every_replica_is_in_a_crash_loop(tmp_path, output):
    made = plan(tmp_path, "--exit-code", "1", "--say", "\x1b]0;no such model")

    assert serve_engine(made, output.terminal) == 1

    assert "It ended 3 times before it worked, and is not started again" in output.text
    assert "  \\x1b]0;no such model\n" in output.text
    assert output.text.endswith("No replica is left: every one was given up.\n")


def drive_beside(output, folder, drive, made):
    """Serve a plan while a thread drives it; SIGTERM ends it."""
    pause = threading.Event()

    def wait_until_said(text):
        while text not in output.text:
            pause.wait(0.02)

    def run():
        try:
            drive(wait_for_replica(folder, "ready"), wait_until_said)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    driver = threading.Thread(target=run)
    driver.start()
    try:
        assert serve_engine(made, output.terminal) == 0
    finally:
        driver.join()


def test_a_hang_up_signal_makes_a_rolling_change_to_the_plan_as_it_is_now(tmp_path, output):
    fresh = engine_plan()
    url = fresh.commands()[0].base_url
    made = replace(plan(tmp_path), replan=lambda: fresh)

    def drive(old, wait_until_said):
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until_said("Rolling change: done.")
        assert wait_for_replica(tmp_path, "ready") != old

    drive_beside(output, tmp_path, drive, made)

    assert wait_for_replica(tmp_path, "stopped")["base_url"] == url
    assert f"ready at {url}" in output.text
    print_engine_status(output.terminal, tmp_path)
    assert "Last rolling change at 2026-09-21 14:13 UTC: done." in output.text


def test_a_changed_file_makes_a_rolling_change_of_what_it_changes(tmp_path, output):
    file = tmp_path / "engines.toml"
    file.write_text("")

    def replan():
        if file.read_text() == "bad":
            raise OperatorError("engines.toml:1: is bad")
        return engine_plan(*file.read_text().split())

    made = replace(plan(tmp_path), replan=replan, watched=(file,))

    def drive(old, wait_until_said):
        file.write_text("bad")
        wait_until_said("Rolling change: engines.toml:1: is bad")
        print_engine_status(output.terminal, tmp_path)
        file.write_text("--say new")
        wait_until_said("Rolling change: done.")

    drive_beside(output, tmp_path, drive, made)

    assert ": engines.toml:1: is bad.\n" in output.text


def test_status_says_that_a_report_is_old_or_that_its_process_is_gone(tmp_path, output, kept_state):
    EngineStateFile(kept_state, PROFILE, NOW).write([READY])
    for age in (MAX_REPORT_AGE_S - 1, MAX_REPORT_AGE_S + 1):
        os.utime(kept_state / "state.json", (NOW - age, NOW - age))
        with locked_profile(kept_state):
            print_engine_status(output.terminal, tmp_path)
    print_engine_status(output.terminal, tmp_path)

    assert output.text.count("Its last report is old, of 2026-09-21 14:11 UTC") == 1
    assert "is gone; below is its last report, of 2026-09-21 14:11 UTC." in output.text
    assert output.text.count("was ready") == 1


def test_status_shows_a_rolling_change_that_runs_or_was_cut_off(tmp_path, output, kept_state):
    state = EngineStateFile(kept_state, PROFILE, NOW)
    state.change = ChangeReport(since=NOW, is_running=True)
    state.write([READY])

    print_engine_status(output.terminal, tmp_path)
    with locked_profile(kept_state):
        print_engine_status(output.terminal, tmp_path)

    assert "A rolling change began at 2026-09-21 14:13 UTC and was not finished." in output.text
    assert "A rolling change runs since 2026-09-21 14:13 UTC" in output.text


def test_a_profile_that_is_served_already_or_has_one_port_twice_is_refused(tmp_path, output):
    made = plan(tmp_path)
    with (
        locked_profile(profile_folder(tmp_path, PROFILE)),
        pytest.raises(OperatorError, match="served already"),
    ):
        serve_engine(made, output.terminal)

    with pytest.raises(OperatorError, match="belongs to another replica"):
        serve_engine(replace(made, commands=[*made.commands] * 2), output.terminal)


def test_status_shows_replicas_and_says_that_their_supervisor_is_gone(tmp_path, output, kept_state):
    print_engine_status(output.terminal, tmp_path)

    lines = output.text.splitlines()
    assert lines[0].startswith(f"Profile tiny: not running. Process {os.getpid()}, which")
    assert lines[1].split() == ["replica", "state", "since", "pid", "restarts", "url", "reason"]
    assert lines[2].split()[:3] == ["8001", "was", "ready"]
    assert "crash loop" in lines[3]
    assert lines[-3:-1] == ["  no such model", "  All of it: /data/8002.log"]
    assert lines[-1].startswith("No gateway runs here with these engines")


def test_status_says_who_supervises_a_profile(tmp_path, output, kept_state):
    with locked_profile(kept_state):
        print_engine_status(output.terminal, tmp_path, PROFILE)

    assert f"Profile tiny: supervised by process {os.getpid()} since" in output.text


def test_status_is_one_json_document_for_scripts(tmp_path, output, kept_state):
    print_engine_status(output.terminal, tmp_path, as_json=True)

    (engine,) = json.loads(output.text)["engines"]
    assert (engine["profile"], engine["is_running"]) == ("tiny", False)
    assert [replica["state"] for replica in engine["replicas"]] == ["ready", "crash_loop"]
    assert engine["replicas"][0]["pid"] == 4711


def test_status_adds_what_a_running_gateway_sees_of_the_engine(tmp_path, output, kept_state):
    seen = ReplicaTraffic(
        name="tiny:0", profile=PROFILE, model="m", base_url="http://a/v1", is_healthy=True
    )
    TrafficFile(tmp_path, 7).write(EngineTraffic(pid=7, at=NOW - 5, replicas=(seen,)))
    print_engine_status(output.terminal, tmp_path, PROFILE)
    assert "Gateway of process 7" in output.text
    assert "tiny:0/m" in output.text

    print_engine_status(output.terminal, tmp_path, as_json=True)
    (gateway,) = json.loads(output.text.splitlines()[-1])["gateways"]
    assert (gateway["pid"], gateway["replicas"][0]["name"]) == (7, "tiny:0")


def test_status_without_an_engine_says_so(tmp_path, output):
    print_engine_status(output.terminal, tmp_path)
    with pytest.raises(Exit):
        print_engine_status(output.terminal, tmp_path, "chat")

    assert output.text == "No engine was served here yet.\n"
    assert output.failed.startswith("Profile chat was never served here.")


def test_a_change_names_the_replica_the_reason_and_the_last_output():
    assert change_lines(READY) == ["Replica 8001: ready at http://127.0.0.1:8001/v1"]
    fewer = replace(READY, left_out=("--mode quick (It is quicker)",))
    (line,) = change_lines(fewer)
    assert line.startswith(f"{change_lines(READY)[0]}, without --mode quick (It is quicker): its")
    assert change_lines(LOST) == [
        "Replica 8002: crash loop: exited with status 1",
        "  no such model",
        "  All of it: /data/8002.log",
    ]


def test_the_health_probe_returns_the_status_or_raises_an_os_error(caplog):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def story():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with health_probe() as probe:
                assert await probe(f"http://127.0.0.1:{port}/health", 30.0) == 503
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            async with health_probe() as probe:
                with pytest.raises(OSError, match="Timeout"):
                    await probe(f"http://127.0.0.1:{port}/health", 0.05)
                silent.close()
                with pytest.raises(OSError, match="ConnectError"):
                    await probe(f"http://127.0.0.1:{port}/health", 30.0)

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert not [record for record in caplog.records if record.name.startswith("httpx")]


def test_metrics_are_summed_over_their_series_or_raise_an_os_error():
    page = b'# TYPE x gauge\nx 1\nx_max 9\ny{a="b c"} 2.5\ny{a="d"} 1e0\n'

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if b"/metrics" in head else b"404 No"
        length = f"content-length: {len(page)}".encode()
        writer.write(b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n\r\n" + page)
        writer.close()

    async def story():
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            assert await sum_metrics(f"{url}/metrics", ("x", "y"), 30.0) == 4.5
            for path, names in (("metrics", ("z",)), ("gone", ("x",))):
                with pytest.raises(OSError, match="has none of"):
                    await sum_metrics(f"{url}/{path}", names, 30.0)
        with pytest.raises(OSError, match="ConnectError"):
            await sum_metrics(f"{url}/metrics", ("x",), 30.0)

    asyncio.run(story())
