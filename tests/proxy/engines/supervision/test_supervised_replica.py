import asyncio
import errno
from dataclasses import replace

import pytest

from proxy.engines.adapters.launch_command import LaunchFlag
from proxy.engines.state.replica_report import ProcessState
from proxy.engines.supervision.engine_log import EngineLog
from proxy.engines.supervision.replica_process import MARKER
from proxy.engines.supervision.restart_policy import RestartPolicy
from proxy.engines.supervision.supervised_replica import SupervisedReplica, SupervisionSettings
from tests.fakes.clock import run_in_instant_time
from tests.fakes.engines import PlayedEngine, engine_command

SETTINGS = SupervisionSettings(restart=RestartPolicy(max_exits=3))


@pytest.fixture
def engine():
    return PlayedEngine()


@pytest.fixture
def play(engine, tmp_path):
    """Supervise a replica for some virtual seconds, then stop it; its states by time, and it."""

    def run(seconds, command=None, settings=SETTINGS, story=None):
        async def supervise():
            began = asyncio.get_running_loop().time()
            states: list[tuple[float, ProcessState]] = []

            def record(report):
                elapsed = asyncio.get_running_loop().time() - began
                if not states or states[-1][1] is not report.state:
                    states.append((round(elapsed, 1), report.state))

            replica = SupervisedReplica(
                command or engine_command(port=8001),
                EngineLog(tmp_path / "8001.log"),
                engine.ports,
                settings,
                record,
            )
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(replica.run())
                if story is not None:
                    tasks.create_task(story(replica))
                await asyncio.wait({running}, timeout=seconds)
                last = replica.report
                replica.stop()
            return states, last

        return run_in_instant_time(supervise())

    return run


def test_a_replica_is_ready_once_its_health_check_is_good_and_drains_when_stopped(play, engine):
    engine.drains_in = 7.0

    states, last = play(100)

    assert [state.value for _, state in states] == ["starting", "ready", "draining", "stopped"]
    assert [time for time, _ in states] == [0, 1.0, 100, 107]
    assert last.pid == 100
    assert engine.processes[0].signals[0] == "stop 30"


@pytest.mark.parametrize(
    ("busy_s", "waits_s"),
    [(0.0, 0.0), (7.0, 7.0), (1_000.0, 30.0), (None, 0.0)],
    ids=["idle", "busy", "busy for too long", "metrics hang"],
)
def test_an_engine_that_breaks_streams_at_sigterm_gets_it_once_no_call_is_left(
    play, engine, busy_s, waits_s
):
    command = replace(engine_command(port=8001), busy_metrics=("running",))

    async def be_busy(_):
        start = asyncio.get_running_loop().time()
        engine.busy_until = None if busy_s is None else start + 100 + busy_s

    states, _ = play(100, command, story=be_busy)

    ((stopped_at, _),) = [state for state in states if state[1] is ProcessState.STOPPED]
    assert stopped_at == pytest.approx(100 + waits_s, abs=0.3)
    assert engine.processes[0].signals[0] == "stop 5"


def test_a_replica_is_marked_in_its_environment_so_that_leftovers_can_be_found(play, engine):
    settings = replace(SETTINGS, environment={"A": "gateway"}, marker="/data/")
    play(10, replace(engine_command(port=8001), env={"A": "profile"}), settings)

    assert engine.environment == {"A": "profile", MARKER: "/data/8001"}


def test_an_engine_that_crashes_is_started_again_after_growing_delays(play, engine):
    engine.lives_for, engine.loads_in = 0.5, None

    play(100, settings=SupervisionSettings(restart=RestartPolicy(max_exits=5)))

    gaps = [b - a for a, b in zip(engine.starts, engine.starts[1:], strict=False)]
    assert [round(gap, 2) for gap in gaps] == [1.5, 2.5, 4.5, 8.5]


def test_a_crash_loop_is_left_with_the_reason_and_the_last_lines(play, engine):
    engine.lives_for, engine.loads_in = 0.5, None
    engine.says = b"OSError: \x1b[1mmodel/x is not a folder\n"

    _, last = play(1000)

    assert last.state is ProcessState.CRASH_LOOP
    assert last.restarts == 2
    cause = "OSError: model/x is not a folder"
    assert last.reason.startswith(f"exited with status 1: {cause}. It ended 3 times")
    assert last.last_lines[-1] == "OSError: model/x is not a folder"
    assert len(engine.starts) == 3


def test_an_engine_without_memory_for_its_cache_is_left_with_what_would_help(play, engine):
    engine.lives_for, engine.loads_in = 0.5, None
    engine.says = (
        b"(EngineCore pid=7) ValueError: No available memory for the cache blocks. Try"
        b" increasing `gpu_memory_utilization`.\n"
        b"(APIServer pid=5) Traceback (most recent call last):\n"
        b"(APIServer pid=5) RuntimeError: Engine core initialization failed."
        b" See root cause above. Failed core proc(s): {}\n"
    )

    _, last = play(1000)

    assert last.state is ProcessState.CRASH_LOOP
    assert "status 1: ValueError: No available memory for the cache blocks." in last.reason
    assert "Try increasing `gpu_memory_utilization`. It ended 3 times" in last.reason


def test_an_exception_of_an_earlier_run_is_no_reason_for_a_later_end(play, engine):
    engine.lives_for, engine.loads_in = 0.5, None
    engine.says = b"ValueError: too little memory\n"

    async def say_nothing_more(_):
        await asyncio.sleep(1.0)
        engine.says = b"Killed by its own watchdog\n"

    _, last = play(1000, story=say_nothing_more)

    assert last.reason.startswith("exited with status 1. It ended 3 times")
    assert last.last_lines == ("Killed by its own watchdog",)


def test_an_engine_that_works_for_long_is_started_again_for_ever(play, engine):
    engine.lives_for = 100.0

    _, last = play(1e4)

    assert last.restarts > 90


def test_a_start_that_takes_too_long_ends_the_engine_and_counts_as_an_exit(play, engine):
    engine.loads_in = None

    states, last = play(40, engine_command(port=8001, start=20.0))

    assert states[:2] == [(0, ProcessState.STARTING), (20.0, ProcessState.RESTARTING)]
    assert engine.processes[0].signals == ["stop 5"]
    assert last.restarts == 1


def test_a_health_check_that_hangs_ends_the_engine_after_some_misses(play, engine):
    async def hang(replica):
        await replica.wait_for({ProcessState.READY})
        engine.hangs = True
        await replica.wait_for({ProcessState.RESTARTING})
        assert "health check failed 3 times in a row" in replica.report.reason
        engine.hangs = False

    states, last = play(60, story=hang)

    # Three intervals of 1 s and three timeouts of 5 s after it was ready.
    assert (19.0, ProcessState.RESTARTING) in states
    assert last.state is ProcessState.READY


def test_a_replica_survives_one_missed_health_check(play, engine):
    async def miss(replica):
        await replica.wait_for({ProcessState.READY})
        for _ in range(5):
            engine.hangs = True
            await asyncio.sleep(7)
            engine.hangs = False
            await asyncio.sleep(7)

    _, last = play(100, story=miss)

    assert last.restarts == 0


def test_a_port_that_is_taken_is_named_before_the_engine_starts(play, engine):
    engine.conflict = "port 8001 of 127.0.0.1 is taken by another program"

    _, last = play(100)

    assert last.state is ProcessState.CRASH_LOOP
    assert last.reason.startswith(engine.conflict)
    assert engine.starts == []


def test_a_port_that_becomes_free_is_used_at_the_next_start(play, engine):
    async def free(replica):
        engine.conflict = "port 8001 of 127.0.0.1 is taken by another program"
        await replica.wait_for({ProcessState.RESTARTING})
        engine.conflict = ""

    engine.conflict = "taken"
    _, last = play(100, story=free)

    assert last.state is ProcessState.READY


def test_a_program_that_cannot_be_started_fails_at_once(play, engine):
    engine.missing = "No such file or directory"

    states, last = play(100)

    assert last.state is ProcessState.FAILED
    assert "cannot be started: No such file or directory" in last.reason
    assert [time for time, _ in states] == [0, 0]


def test_a_start_that_the_machine_has_no_room_for_is_tried_again(play, engine):
    async def make_room(replica):
        await replica.wait_for({ProcessState.RESTARTING})
        engine.missing = ""

    engine.missing, engine.start_error = "Cannot allocate memory", errno.ENOMEM
    _, last = play(100, story=make_room)

    assert last.state is ProcessState.READY


def test_an_engine_that_the_kernel_killed_for_lack_of_memory_says_so(play, engine):
    async def kill(replica):
        await replica.wait_for({ProcessState.READY})
        engine.oom_kills = 1
        engine.processes[0].end(-9)
        await replica.wait_for({ProcessState.RESTARTING})
        assert "SIGKILL: out of memory" in replica.report.reason

    play(10, story=kill)


def test_a_stop_while_it_starts_or_waits_for_a_restart_ends_it_at_once(play, engine):
    engine.loads_in = None
    states, _ = play(5)
    assert states[-1] == (5.0, ProcessState.STOPPED)

    engine.lives_for = 0.5
    states, _ = play(0.7)
    assert states[-1] == (0.7, ProcessState.STOPPED)


def test_a_kill_ends_a_draining_replica(play, engine):
    engine.drains_in = 20.0

    async def kill(replica):
        await replica.wait_for({ProcessState.READY})
        replica.stop()
        await asyncio.sleep(3)
        replica.kill()

    states, _ = play(100, story=kill)

    assert states[-1] == (4.0, ProcessState.STOPPED)


def test_a_withdrawn_replica_gets_sigterm_only_after_callers_could_leave(play, engine):
    async def withdraw(replica):
        await replica.wait_for({ProcessState.READY})
        replica.stop(withdrawal=2.0)
        await asyncio.sleep(1.5)
        assert replica.report.state is ProcessState.DRAINING
        assert engine.processes[0].signals == []

    states, _ = play(100, story=withdraw)

    assert states[-1] == (3.0, ProcessState.STOPPED)


MODEL = LaunchFlag(argv=("--model", "m"), reason="The weights.")
MODE = LaunchFlag(argv=("--mode", "quick"), reason="It is quicker.", feature="mode")
DRAFT = LaunchFlag(argv=("--draft", "d"), reason="It drafts.", feature="speculation")
DRAFT_TOKENS = LaunchFlag(argv=("--tokens", "4"), reason="So many.", feature="speculation")


def test_an_engine_that_does_not_know_a_flag_is_started_at_once_without_it(play, engine):
    engine.known_flags = frozenset({"--model", "--draft", "--tokens"})
    command = replace(
        engine_command(port=8001), program=("engine",), flags=(MODEL, MODE, DRAFT, DRAFT_TOKENS)
    )

    states, last = play(100, command)

    assert [state.value for _, state in states[:2]] == ["starting", "ready"]
    assert engine.starts[1] - engine.starts[0] == pytest.approx(0.5)
    assert engine.argv == ("engine", "--model", "m", "--draft", "d", "--tokens", "4")
    assert last.left_out == ("--mode quick (It is quicker)",)
    assert (last.restarts, last.reason) == (0, "")


def test_flags_of_one_feature_are_left_out_together_and_the_report_says_what_runs(play, engine):
    engine.known_flags = frozenset({"--model", "--mode", "--draft"})
    command = replace(
        engine_command(port=8001),
        program=("engine",),
        flags=(MODEL, MODE, DRAFT, DRAFT_TOKENS),
        speculation="draft_model:4",
        weights=("m", "d"),
    )

    _, last = play(100, command)

    assert engine.argv == ("engine", "--model", "m", "--mode", "quick")
    assert (last.state, last.speculation) == (ProcessState.READY, "none")
    assert last.weights == ("m", "d")


def test_an_engine_that_does_not_know_a_flag_which_it_has_to_follow_is_a_crash_loop(play, engine):
    engine.known_flags = frozenset({"--mode"})
    command = replace(engine_command(port=8001), program=("engine",), flags=(MODEL, MODE))

    _, last = play(100, command)

    assert (last.state, last.left_out) == (ProcessState.CRASH_LOOP, ())
    assert last.last_lines[-1] == "engine: error: unrecognized arguments: --model"
