import asyncio
import os
import signal
import socket
import subprocess
import sys

import pytest
import uvloop

from proxy.engines.supervision.engine_log import EngineLog
from proxy.engines.supervision.replica_process import (
    MARKER,
    ProcessExit,
    kernel_oom_kills,
    kill_leftovers,
    port_conflict,
    replica_process,
)
from tests.fakes.engines import engine_argv, is_alive, until

FOREVER = ("--start-delay", "600")


@pytest.fixture
def log(tmp_path):
    return EngineLog(tmp_path / "engine.log")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_output_and_exit_status_of_an_engine_are_kept(run, log):
    async def story():
        argv = engine_argv("--exit-code", "7", "--say", "\x1b[1mno such model")
        async with replica_process(argv, {}, log) as process:
            return await process.wait()

    assert run(story()) == ProcessExit(7)
    assert log.tail() == ("no such model",)


def test_an_engine_gets_the_environment_it_is_given_and_no_more(log):
    async def story():
        argv = (sys.executable, "-I", "-S", "-c", "import os; print(sorted(os.environ))")
        async with replica_process(argv, {"ONE": "1"}, log) as process:
            await process.wait()

    asyncio.run(story())

    assert "'ONE'" in log.tail()[0]
    assert "PATH" not in log.tail()[0]


def test_a_program_that_cannot_be_started_is_an_error_with_the_reason(log):
    async def story():
        async with replica_process(("/nowhere/vllm", "serve"), {}, log):
            pass

    with pytest.raises(OSError, match="No such file or directory"):
        asyncio.run(story())


def test_a_command_line_that_no_program_can_get_is_an_error(log):
    async def story():
        async with replica_process(("vllm\0",), {}, log):
            pass

    with pytest.raises(OSError, match="null byte"):
        asyncio.run(story())


def test_the_end_of_the_block_ends_an_engine_that_runs(log):
    async def story():
        async with replica_process(engine_argv(*FOREVER), {}, log) as process:
            pass
        return process

    process = asyncio.run(story())

    assert process.exit == ProcessExit(-signal.SIGTERM)
    assert not is_alive(process.pid)


def test_a_cancelled_block_ends_its_engine(log):
    pids = []

    async def run():
        async with replica_process(engine_argv(*FOREVER), {}, log) as process:
            pids.append(process.pid)
            await process.wait()

    async def story():
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run())
            await until(lambda: pids)
            running.cancel()

    asyncio.run(story())

    assert not is_alive(pids[0])


def test_an_engine_whose_guardian_is_killed_ends_with_its_daemons(log, tmp_path):
    file = tmp_path / "daemon"

    async def story():
        argv = engine_argv(*FOREVER, "--daemon", str(file))
        async with replica_process(argv, {MARKER: str(tmp_path)}, log) as process:
            await until(lambda: file.exists() and file.read_text())
            daemon = int(file.read_text())
            os.kill(_parent(process.pid), signal.SIGKILL)
            end = await process.wait()
            await until(lambda: not is_alive(process.pid) and not is_alive(daemon))
            return end

    assert asyncio.run(story()) == ProcessExit(None)


def _parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf8") as file:  # noqa: PTH123 - no path of ours
        return int(file.read().rpartition(")")[2].split()[1])


def test_leftovers_are_found_by_the_beginning_of_their_marker(tmp_path):
    environment = {MARKER: f"{tmp_path}/8001"}
    with subprocess.Popen(engine_argv(*FOREVER), env=environment, stdout=-1) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        process.stdout.readline()

        assert kill_leftovers(f"{tmp_path}/other") == 0
        assert kill_leftovers(f"{tmp_path}/") == 1
        assert process.wait(60) == -signal.SIGKILL


def test_a_port_with_a_listener_is_taken_and_one_without_is_not():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        url = f"http://127.0.0.1:{port}/health"

        assert f"port {port} of 127.0.0.1 is taken" in port_conflict(url)

    assert port_conflict(url) == ""


def test_a_port_of_another_host_is_no_conflict():
    assert port_conflict("http://192.0.2.1:80/health") == ""


def test_the_kernel_counts_what_it_killed_for_lack_of_memory():
    count = kernel_oom_kills()

    assert count is None or count >= 0
