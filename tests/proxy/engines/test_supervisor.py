"""Real processes of a fake engine; the faults that end or hang one."""

import asyncio
import os
import signal
import socket
from dataclasses import replace

import pytest

from proxy.engines.restart_policy import RestartPolicy
from proxy.engines.supervised_replica import ProcessState
from proxy.engines.supervisor import EngineSupervisor
from tests.fakes.engines import (
    QUICK,
    engine_command,
    get,
    is_alive,
    real_ports,
    until,
)
from tests.fakes.fake_engine import PIECES


@pytest.fixture
def supervise(tmp_path):
    """Run a story beside a supervisor of these commands, which is stopped after it."""

    def run(commands, story, settings=QUICK):
        async def both():
            supervisor = EngineSupervisor(
                commands, tmp_path, real_ports(), settings, lambda _: None
            )
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(supervisor.run())
                try:
                    result = await story(supervisor)
                finally:
                    supervisor.stop()
                await running
            return supervisor, result

        return asyncio.run(both())

    return run


async def wait_ready(supervisor, count=1):
    await until(lambda: len(supervisor.ready_urls) == count)
    return [report.pid for report in supervisor.reports]


def states(supervisor):
    return [report.state for report in supervisor.reports]


def test_replicas_start_answer_and_stop_without_a_process_left(supervise, tmp_path):
    file = tmp_path / "daemon"

    async def story(supervisor):
        pids = await wait_ready(supervisor, 2)
        answers = [await get(url.replace("v1", "health")) for url in supervisor.ready_urls]
        assert [status for status, _ in answers] == [200, 200]
        return pids

    supervisor, pids = supervise([engine_command("--daemon", str(file)), engine_command()], story)

    assert states(supervisor) == [ProcessState.STOPPED] * 2
    assert not any(map(is_alive, [*pids, int(file.read_text())]))


def test_an_engine_killed_while_it_serves_is_started_again_with_the_reason(supervise):
    async def story(supervisor):
        (pid,) = await wait_ready(supervisor)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: supervisor.reports[0].state is ProcessState.RESTARTING)
        reason = supervisor.reports[0].reason
        (again,) = await wait_ready(supervisor)
        assert again != pid
        return reason

    _, reason = supervise(
        [engine_command()], story, replace(QUICK, restart=RestartPolicy(first_delay_s=0.2))
    )

    assert reason.startswith("was ended by SIGKILL: killed by hand, or by the kernel")


def test_an_engine_killed_while_it_loads_is_started_again(supervise):
    async def story(supervisor):
        await until(lambda: supervisor.reports[0].pid)
        first = supervisor.reports[0].pid
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.reports[0].pid not in {0, first})
        return supervisor.reports[0].restarts

    assert supervise([engine_command("--start-delay", "600", drain=0.1)], story)[1] == 1


def test_a_wrong_model_path_is_a_crash_loop_that_shows_the_engine_s_last_lines(supervise):
    command = engine_command("--exit-code", "1", "--say", "OSError: models/nope is no folder")

    async def story(supervisor):
        await until(lambda: supervisor.is_lost)

    supervisor, _ = supervise([command], story)
    (report,) = supervisor.reports

    assert report.state is ProcessState.CRASH_LOOP
    assert "exited with status 1" in report.reason
    assert report.last_lines == ("OSError: models/nope is no folder",) * 3


def test_one_replica_in_a_crash_loop_leaves_the_other_running(supervise):
    async def story(supervisor):
        await until(lambda: ProcessState.CRASH_LOOP in states(supervisor))
        await wait_ready(supervisor)
        return supervisor.is_lost

    assert supervise([engine_command("--kill-itself"), engine_command()], story)[1] is False


def test_a_port_that_another_program_has_is_named(supervise):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def story(supervisor):
            await until(lambda: supervisor.is_lost)

        supervisor, _ = supervise([engine_command(port=port)], story)

    assert f"port {port} of 127.0.0.1 is taken by another program" in supervisor.reports[0].reason


def test_a_hung_health_check_ends_the_engine_and_hung_metrics_do_not(supervise):
    command = engine_command("--ignore-sigterm")
    settings = replace(QUICK, health_timeout_s=0.2, max_missed_checks=2)

    async def story(supervisor):
        (pid,) = await wait_ready(supervisor)
        async with asyncio.TaskGroup() as tasks:
            scrape = tasks.create_task(get(command.metrics_url))
            await asyncio.sleep(0.3)
            assert supervisor.reports[0].pid == pid
            scrape.cancel()
        await get(command.health_url.replace("health", "hang"))
        await until(lambda: supervisor.reports[0].restarts == 1)
        assert not is_alive(pid)
        supervisor.kill()

    supervise([command], story, settings)


def test_fifty_streams_under_way_finish_while_the_engine_drains(supervise):
    command = engine_command()

    async def story(supervisor):
        await wait_ready(supervisor)
        url = command.base_url.replace("v1", "stream")
        async with asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(get(url)) for _ in range(50)]
            await asyncio.sleep(0.1)
            supervisor.stop()
            await until(lambda: states(supervisor) == [ProcessState.DRAINING])
        return [stream.result() for stream in streams]

    _, answers = supervise([command], story)

    assert all(body.count(b"data: {}") == PIECES for _, body in answers)
    assert all(body.endswith(b"data: [DONE]\n\n") for _, body in answers)


def test_a_rolling_change_never_leaves_a_caller_without_an_answer(supervise):
    old, new = engine_command(), engine_command("--start-delay", "0.3")

    async def story(supervisor):
        (pid,) = await wait_ready(supervisor)
        seen, failures, done = set(), [], asyncio.Event()

        async def ask():
            while not done.is_set():
                url = supervisor.ready_urls[0]
                seen.add(url)
                try:
                    status, _ = await get(url.replace("v1", "health"))
                except OSError as error:
                    failures.append(error)
                else:
                    assert status == 200
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask())
            why = await supervisor.replace_all([new])
            await asyncio.sleep(0.05)
            done.set()
        assert not is_alive(pid)
        assert supervisor.ready_urls == [new.base_url]
        return why, seen, failures

    _, (why, seen, failures) = supervise([old], story)

    assert (why, failures) == ("", [])
    assert seen == {old.base_url, new.base_url}


def test_a_rolling_change_to_an_engine_that_does_not_start_keeps_the_old_one(supervise):
    async def story(supervisor):
        pids = await wait_ready(supervisor)
        why = await supervisor.replace_all([engine_command("--exit-code", "2")])
        assert [report.pid for report in supervisor.reports] == pids
        return why

    _, why = supervise([engine_command()], story)

    assert "stays: exited with status 2" in why


def test_a_rolling_change_to_the_same_port_is_refused(supervise):
    command = engine_command()

    async def story(supervisor):
        await wait_ready(supervisor)
        return await supervisor.replace_all([command])

    assert "belongs to another replica" in supervise([command], story)[1]


def test_a_change_after_the_end_is_refused(supervise):
    command = engine_command("--exit-code", "1")

    async def story(supervisor):
        await until(lambda: supervisor.is_lost)
        await asyncio.sleep(0.05)
        return await supervisor.replace_all([engine_command()])

    assert "not supervised any more" in supervise([command], story)[1]


def test_two_replicas_on_one_port_are_refused(tmp_path):
    command = engine_command()

    with pytest.raises(ValueError, match="belongs to another replica"):
        EngineSupervisor([command] * 2, tmp_path, real_ports(), QUICK, lambda _: None)
