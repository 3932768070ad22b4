"""Real processes of a fake engine; the faults that end or hang one."""

import asyncio
import os
import signal
import socket
from dataclasses import replace

import pytest

from proxy.engines.adapters.launch_command import LaunchCommand, LaunchFlag
from proxy.engines.state.replica_report import ProcessState
from proxy.engines.supervision.replica_plan import ReplicaPlan
from proxy.engines.supervision.restart_policy import RestartPolicy
from proxy.engines.supervision.supervisor import EngineSupervisor
from tests.fakes.engines import (
    QUICK,
    engine_command,
    engine_plan,
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
        [engine_command()],
        story,
        # Its end is to be noticed by itself, not by health checks, however busy the machine is.
        replace(QUICK, restart=RestartPolicy(first_delay_s=0.2), health_interval_s=5.0),
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


def test_an_engine_that_runs_without_an_unknown_flag_is_left_alone_by_a_change(
    supervise,
):
    flag = LaunchFlag(argv=("--newer", "1"), reason="It is new.", feature="new")

    def command(port: int = 0) -> LaunchCommand:
        return replace(engine_command(port=port), flags=(flag,))

    async def story(supervisor):
        pids = await wait_ready(supervisor)
        plan = ReplicaPlan(count=1, first_port=1, build=lambda _, port: command(port))
        why = await supervisor.change(plan)
        return why, pids, supervisor.reports

    _, (why, pids, (report,)) = supervise([command()], story)

    assert (why, report.pid) == ("", pids[0])
    assert report.left_out == ("--newer 1 (It is new)",)


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
    command = engine_command("--streams-last")

    async def story(supervisor):
        await wait_ready(supervisor)
        url = command.base_url.replace("v1", "stream")
        begun = []
        async with asyncio.TaskGroup() as tasks:
            streams = [
                tasks.create_task(get(url, begun=lambda: begun.append(1))) for _ in range(50)
            ]
            await until(lambda: len(begun) == 50)
            supervisor.stop()
        return [stream.result() for stream in streams]

    _, answers = supervise([command], story)

    assert all(body.count(b"data: {}") == PIECES for _, body in answers)
    assert all(body.endswith(b"data: [DONE]\n\n") for _, body in answers)


def ask_all_the_while(supervisor, seen, failures):
    """Ask ready replicas one after the other, until cancelled."""

    async def ask():
        while True:
            url = supervisor.ready_urls[0]
            seen.add(url)
            try:
                status, _ = await get(url.replace("v1", "health"))
            except OSError as error:
                failures.append(error)
            else:
                assert status == 200
            await asyncio.sleep(0)

    return ask()


def change(supervise, commands, plan, **options):
    """Change ready replicas to a plan: the reason, the URLs, and those asked, all answering."""

    async def story(supervisor):
        pids = await wait_ready(supervisor, len(commands))
        seen: set[str] = set()
        failures: list[OSError] = []
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(ask_all_the_while(supervisor, seen, failures))
            why = await supervisor.change(plan, **options)
            await asyncio.sleep(0.05)
            asking.cancel()
        assert failures == []
        now = [report.pid for report in supervisor.reports]
        return why, supervisor.ready_urls, seen, [pid for pid in pids if pid in now]

    return supervise(commands, story)[1]


def test_a_rolling_change_never_leaves_a_caller_without_an_answer(supervise):
    old = engine_command()
    plan = engine_plan("--start-delay", "0.3")

    why, urls, seen, remaining = change(supervise, [old], plan)

    assert (why, remaining) == ("", [])
    assert seen == {old.base_url, *urls}
    assert urls != [old.base_url]


def test_a_rolling_change_that_stops_first_keeps_the_ports_and_one_replica_ready(supervise):
    old = [engine_command(), engine_command(replica=1)]
    plan = engine_plan("--start-delay", "0.1", count=2, stops_first=True)

    why, urls, seen, remaining = change(supervise, old, plan)

    assert (why, remaining) == ("", [])
    assert set(urls) == {command.base_url for command in old} >= seen


def test_a_failed_start_in_place_brings_the_old_replica_back(supervise):
    old = [engine_command(), engine_command(replica=1)]
    plan = engine_plan("--exit-code", "2", count=2, stops_first=True)

    why, urls, _, remaining = change(supervise, old, plan)

    assert "stays: exited with status 2" in why
    assert set(urls) == {command.base_url for command in old}
    assert len(remaining) == 1


def test_a_single_replica_is_not_stopped_before_the_new_one_starts(supervise):
    old = engine_command()

    why, urls, _, remaining = change(supervise, [old], engine_plan("--say", "2", stops_first=True))

    assert "no other replica is ready" in why
    assert (urls, len(remaining)) == ([old.base_url], 1)


def test_a_rolling_change_to_an_engine_that_does_not_start_keeps_the_old_one(supervise):
    why, _, _, remaining = change(supervise, [engine_command()], engine_plan("--exit-code", "2"))

    assert "stays: exited with status 2" in why
    assert len(remaining) == 1


def test_a_replica_whose_command_is_the_same_is_replaced_only_on_demand(supervise):
    old = engine_command()

    assert len(change(supervise, [old], engine_plan())[3]) == 1
    assert change(supervise, [old], engine_plan(), also_unchanged=True)[3] == []


def test_a_rolling_change_adds_and_ends_replicas(supervise):
    both = [engine_command(), engine_command(replica=1)]

    assert len(change(supervise, both[:1], engine_plan(count=2))[1]) == 2
    assert change(supervise, both, engine_plan(count=1))[1] == [both[0].base_url]


def test_ports_that_other_programs_have_are_left_out_of_a_rolling_change(supervise):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        plan = engine_plan("--say", "new", first_port=port)

        why, urls, _, _ = change(supervise, [engine_command()], plan)

    assert why == ""
    assert int(urls[0].split(":")[2].removesuffix("/v1")) > port


def test_a_change_after_the_end_is_refused(supervise):
    command = engine_command("--exit-code", "1")

    async def story(supervisor):
        await until(lambda: supervisor.is_lost)
        await asyncio.sleep(0.05)
        return await supervisor.change(engine_plan())

    assert "not supervised any more" in supervise([command], story)[1]


def test_a_stop_during_a_rolling_change_ends_old_and_new(supervise):
    async def story(supervisor):
        await wait_ready(supervisor)
        async with asyncio.TaskGroup() as tasks:
            changing = tasks.create_task(supervisor.change(engine_plan("--start-delay", "600")))
            await until(lambda: len(supervisor.reports) == 2)
            supervisor.stop()
        return changing.result()

    supervisor, why = supervise([engine_command()], story)

    assert "the engine is being stopped" in why
    assert states(supervisor) == [ProcessState.STOPPED]


def test_two_replicas_on_one_port_are_refused(tmp_path):
    command = engine_command()

    with pytest.raises(ValueError, match="belongs to another replica"):
        EngineSupervisor([command] * 2, tmp_path, real_ports(), QUICK, lambda _: None)
