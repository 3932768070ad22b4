"""Two gateways whose Redis stalls, or loses everything, under load: nobody need notice a stall."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bench.budget_fault_gateways import Ledger, gateways
from tests.bench.budget_faults import BUDGET, keys, long_body
from tests.bench.budget_faults import body as short_body
from tests.fakes.concurrent_callers import ConcurrentCallers
from tests.fakes.redis_server import ABSENT, PROGRAM, OwnRedis, own_redis
from tests.fakes.serve_process import ServeProcess

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
_NANOS = 1_000_000_000
#: Seconds in which all that was held goes once nobody calls: far less than a hold lasts.
_RELEASED_S = 20.0
STALL_S = 1.5
STALLS = 3


@dataclass
class GatewaysUnderLoad:
    """Two gateways under load.

    Attributes:
        caller_groups: Who calls them.
    """

    gateways: list[ServeProcess]
    redis: OwnRedis
    ledger: Ledger
    caller_groups: list[ConcurrentCallers]

    def statuses(self, phase: str = "") -> set[int]:
        """Return what was answered to calls of a phase; of all where none is named."""
        return {
            met.status
            for callers in self.caller_groups
            for met in list(callers.met)
            if phase in {"", met.phase}
        }

    def answer_count(self) -> int:
        return sum(met.status == 200 for callers in self.caller_groups for met in list(callers.met))

    def until_leased(self) -> None:
        """Wait until calls go on without Redis, which two hundred answers take at most."""
        end = time.monotonic() + 60
        while self.answer_count() < 200 and time.monotonic() < end:
            time.sleep(0.1)

    def until_refused(self, seconds: float) -> None:
        """Wait until a call does not fit, not longer than this."""
        end = time.monotonic() + seconds
        while 429 not in self.statuses() and time.monotonic() < end:
            time.sleep(0.1)

    def until_released(self, name: str) -> None:
        """Wait until nothing is held of a budget, not for long."""
        end = time.monotonic() + _RELEASED_S
        while self.ledger.levels([name])[0].held and time.monotonic() < end:
            time.sleep(0.25)

    def stall(self) -> None:
        """Let Redis say nothing for a while."""
        for callers in self.caller_groups:
            callers.phase = "stalled"
        self.redis.hold_up()
        time.sleep(STALL_S)
        self.redis.go_on()
        for callers in self.caller_groups:
            callers.phase = "here"


@contextmanager
def load(
    folder: Path, limits: dict[str, int], body: Callable[[int], bytes] = short_body
) -> Iterator[GatewaysUnderLoad]:
    """Two gateways that teams of these names call, each with its own budget in dollars."""
    budgets = "".join(BUDGET.format(name=name, limit=limit) for name, limit in limits.items())
    with ExitStack() as stack:
        redis = stack.enter_context(own_redis(folder))
        running = stack.enter_context(gateways(folder, budgets, redis.url, count=2))
        ledger = Ledger(running[0], redis.url)
        stack.callback(ledger.store.close, 5)
        team_keys = {name: key for name, key in keys(ledger.store).items() if name in limits}
        caller_groups = [ConcurrentCallers(process.url, team_keys, body) for process in running]
        yield GatewaysUnderLoad(running, redis, ledger, caller_groups)


def test_a_stall_of_redis_refuses_no_call_and_all_of_them_are_counted(tmp_path):
    with load(tmp_path, {"closed": 200}) as fixture:
        with fixture.caller_groups[0].calling(), fixture.caller_groups[1].calling():
            fixture.until_leased()
            for _ in range(STALLS):
                before = fixture.answer_count()
                fixture.stall()
                assert fixture.answer_count() > before + 5
                time.sleep(3.0)
        for gateway in fixture.gateways:
            gateway.stop()
        (level,) = fixture.ledger.levels(["closed"])
        spent = fixture.ledger.spend_by_team()["closed"]

    assert fixture.statuses("stalled") == {200}
    assert level.spent == spent
    assert level.held == 0


@pytest.mark.parametrize(
    ("body", "statuses"), [(short_body, {200}), (long_body, {200, 429})], ids=["roomy", "spent"]
)
def test_a_stall_refuses_no_call_of_a_budget_that_is_too_small_for_leases(tmp_path, body, statuses):
    """Of ten dollars no lease is given: a process would have to hold eight calls ahead."""
    limit = 10
    with load(tmp_path, {"closed": limit}, body) as fixture:
        with fixture.caller_groups[0].calling(), fixture.caller_groups[1].calling():
            time.sleep(1.0)
            fixture.stall()
            time.sleep(0.5)
            fixture.stall()
            time.sleep(0.5)
        for gateway in fixture.gateways:
            gateway.stop()
        fixture.until_released("closed")
        (level,) = fixture.ledger.levels(["closed"])
        spent = fixture.ledger.spend_by_team()["closed"]

    assert any(callers.of("stalled", "closed") for callers in fixture.caller_groups)
    assert fixture.statuses() <= statuses
    assert level.spent == spent <= limit * _NANOS


def test_a_redis_that_stalls_again_and_again_lets_no_call_pass_the_limit(tmp_path):
    """Most of the limit is leased for some time, all of it is spent, and nothing stays held."""
    limit = 20
    with load(tmp_path, {"closed": limit}, long_body) as fixture:
        with fixture.caller_groups[0].calling(), fixture.caller_groups[1].calling():
            end = time.monotonic() + 70
            while 429 not in fixture.statuses() and time.monotonic() < end:
                fixture.stall()
                time.sleep(1.0)
            fixture.until_refused(60)
        fixture.until_released("closed")
        for gateway in fixture.gateways:
            gateway.stop()
        (level,) = fixture.ledger.levels(["closed"])
        spent = fixture.ledger.spend_by_team()["closed"]

    assert 429 in fixture.statuses()
    assert 0.9 * limit * _NANOS < spent <= limit * _NANOS
    assert (level.spent, level.held) == (spent, 0)


def test_counters_that_were_emptied_under_load_are_what_the_ledger_says_within_a_minute(tmp_path):
    with load(tmp_path, {"closed": 200, "open": 200}) as fixture:
        with fixture.caller_groups[0].calling(), fixture.caller_groups[1].calling():
            fixture.until_leased()
            fixture.redis.flush()
            emptied = time.monotonic()
            time.sleep(20)
        for gateway in fixture.gateways:
            gateway.stop()
        assert time.monotonic() < emptied + 60
        levels = dict(
            zip(("closed", "open"), fixture.ledger.levels(["closed", "open"]), strict=True)
        )
        spent = fixture.ledger.spend_by_team()

    assert {name: level.spent for name, level in levels.items()} == spent
    assert {level.held for level in levels.values()} == {0}
