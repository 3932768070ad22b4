import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.supervision.restart_policy import EngineExit, RestartPolicy, describe_exit

POLICY = RestartPolicy(first_delay_s=1, max_delay_s=8, stable_s=60, max_exits=6, window_s=1000)


def early(count, first=100.0):
    return [EngineExit(first + n) for n in range(count)]


def test_delays_between_restarts_double_up_to_the_limit():
    delays = [POLICY.next_delay(early(n), now=110.0) for n in range(1, 6)]

    assert delays == [1, 2, 4, 8, 8]


def test_too_many_early_exits_in_a_row_are_a_crash_loop():
    assert POLICY.next_delay(early(6), now=110.0) is None


def test_an_exit_after_stable_readiness_begins_the_delays_anew():
    exits = [*early(5), EngineExit(200.0, ready_s=60.0)]

    assert POLICY.next_delay(exits, now=200.0) == 1
    assert POLICY.next_delay([*exits, EngineExit(210.0)], now=210.0) == 1
    assert POLICY.next_delay([*exits, *early(2, first=210.0)], now=212.0) == 2


def test_early_exits_before_the_window_do_not_count():
    assert POLICY.next_delay(early(5), now=1103.5) == 1


def test_jitter_takes_away_at_most_half_of_the_delay():
    assert POLICY.next_delay(early(3), now=110.0, chance=0.0) == 2
    assert POLICY.next_delay(early(3), now=110.0, chance=0.5) == 3


def test_an_engine_that_crashes_at_the_end_of_a_slow_start_is_a_crash_loop_too():
    policy = RestartPolicy.for_start(3600.0)
    exits = [EngineExit(3660.0 * n) for n in range(policy.max_exits)]

    assert policy.next_delay(exits, now=exits[-1].at) is None


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=40).map(sorted), st.floats(0, 1))
def test_a_delay_is_within_its_limits_whatever_the_exits(times, chance):
    delay = POLICY.next_delay([EngineExit(time) for time in times], times[-1], chance)

    assert delay is None or 0.5 <= delay <= 8


@pytest.mark.parametrize(
    ("status", "kills", "text"),
    [
        (3, 0, "exited with status 3"),
        (-15, None, "was ended by SIGTERM"),
        (-200, None, "was ended by signal 200"),
        (None, None, "ended with its guardian"),
        (-9, 1, "was ended by SIGKILL: out of memory, the kernel killed a process while it ran"),
        (1, 1, "exited with status 1: out of memory, the kernel killed a process while it ran"),
    ],
)
def test_an_exit_is_described_by_status_and_by_the_kernel_counter(status, kills, text):
    assert describe_exit(status, oom_kills=kills) == text


@pytest.mark.parametrize("kills", [0, None])
def test_an_exit_by_sigkill_names_lack_of_memory_even_if_the_kernel_counted_none(kills):
    assert "out of memory" in describe_exit(-9, oom_kills=kills)
