# ruff: noqa: T201 - a script prints its result
"""Budgets while Redis dies and while a gateway does: what callers saw, what was spent.

First a Redis of its own is held up, killed and started again, empty, under calls of three teams,
one for each ``on_loss``. Then it is killed and started again at once, empty, when a closed budget
is nearly spent. Then two gateways hold calls that do not end, and one is killed: what it
held counts until its time is over, then is spent. Usage: python -m tests.bench.budget_faults
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import orjson

from proxy.services.budgets.accounts import SETTLED_AFTER_S
from proxy.store.store import Store
from slo.budgets.budget import OnStoreLoss
from tests.bench.budget_fault_gateways import NANOS, Ledger, gateways
from tests.bench.gateway_deaths import kill_one, print_death
from tests.fakes.budget_gateway import DIME
from tests.fakes.concurrent_callers import ConcurrentCallers
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import OwnRedis, own_redis
from tests.fakes.serve_process import ServeProcess

PHASES = ("here", "silent", "dead", "back")
TEAMS = tuple(each.value for each in OnStoreLoss)

#: Dollars a month; a tenth of the second's is soon spent.
LIMITS = dict(zip(TEAMS, (20, 12, 20), strict=True))
BUDGET = """
[[budgets]]
name = "{name}"
scope = "team"
of = "{name}"
unit = "usd"
window = "month"
limit = "{limit}"
hold = "worst"
on_loss = "{name}"
"""

#: What a counter may lack under load when it is repaired: what is spent in less than a second.
NEARLY = NANOS // 2

#: Of 20 dollars, what is spent when Redis is killed; on a fast machine much more is by then.
NEAR = 12 * NANOS


@dataclass(frozen=True)
class TeamAnswers:
    """Answers that a team's callers got in a phase.

    Attributes:
        statuses: How many answers had which status.
        codes: The errors' codes.
        refused: Seconds until a refusal, p99; 0 where there was none.
        slowest: Seconds that the slowest call took.
        spent: In dollars.
    """

    phase: str
    team: str
    statuses: Counter[int]
    codes: set[str]
    refused: float
    slowest: float
    spent: float


@dataclass(frozen=True)
class Loss:
    """Results after Redis was lost.

    Attributes:
        rows: By phase and team.
        lacked: Dollars that each team's counter lacked when Redis was back.
        repaired: Seconds from then until every counter was nearly what the ledger said, under load.
        exact: Seconds until no counter lacked anything, once nobody called any more.
        drift: Whether a lack was published meanwhile.
        spent: In the end, in nano-dollars, by team: of the ledger, and of its counter.
    """

    rows: Sequence[TeamAnswers]
    lacked: dict[str, float]
    repaired: float
    exact: float
    drift: bool
    spent: dict[str, tuple[int, int]]


def body(number: int) -> bytes:
    """A call of some ninety tokens, of which a thousand cost ten cents."""
    messages = [{"role": "user", "content": f"[[fault:words=60]] Call {number}."}]
    return orjson.dumps(DIME | {"messages": messages})


def lost(folder: Path, redis: OwnRedis, *, lead: float, away: float) -> Loss:
    """Take Redis from a gateway under load and give it back empty.

    Args:
        folder: Where everything is.
        redis: The Redis.
        lead: Seconds until it is lost.
        away: Seconds that it says nothing, and then that it is not there.
    """
    budgets = "".join(BUDGET.format(name=team, limit=limit) for team, limit in LIMITS.items())
    with ExitStack() as stack:
        gateway = stack.enter_context(gateways(folder, budgets, redis.url, count=1))[0]
        ledger = Ledger(gateway, redis.url)
        stack.callback(ledger.store.close, 5)
        callers = ConcurrentCallers(gateway.url, keys(ledger.store), body)
        with callers.calling():
            time.sleep(lead)
            before = ledger.spend_by_team()
            callers.phase = "silent"
            redis.hold_up()
            time.sleep(away)
            callers.phase = "dead"
            redis.kill()
            time.sleep(away)
            callers.phase = "back"
            redis.start()
            began, drift = time.monotonic(), False
            lacked = {
                team: (before[team] - level.spent) / NANOS
                for team, level in zip(TEAMS, ledger.levels(TEAMS), strict=True)
            }
            end = began + 6 * SETTLED_AFTER_S
            while time.monotonic() < end and (not drift or min(gaps(ledger)) < -NEARLY):
                drift = drift or exported_drift(gateway) > 0
                time.sleep(0.1)
            repaired = time.monotonic() - began
        while min(gaps(ledger)) < 0 and time.monotonic() < end:
            time.sleep(0.5)
        exact = time.monotonic() - began
        gateway.stop()  # leases are given back then, and the journal is in the ledger
        levels, spent = ledger.levels(TEAMS), ledger.spend_by_team()
    return Loss(
        rows=[row(callers, phase, team) for phase in PHASES for team in TEAMS],
        lacked=lacked,
        repaired=repaired,
        exact=exact,
        drift=drift,
        spent={team: (spent[team], levels[n].spent) for n, team in enumerate(TEAMS)},
    )


@dataclass(frozen=True)
class RestartResult:
    """Results after Redis was back at once, and empty, when a closed budget was nearly spent.

    Attributes:
        before: Nano-dollars in the ledger when it was killed.
        spent: In the end.
        counter: What the counter said then.
        refused: Seconds from the kill until the last call that was refused for it had begun.
        rows: What the callers met, before and after.
    """

    before: int
    spent: int
    counter: int
    refused: float
    rows: Sequence[TeamAnswers]


def restart_redis(folder: Path, redis: OwnRedis, *, near: int, after: float) -> RestartResult:
    """Kill Redis under the load of two gateways and start it again at once, empty.

    Args:
        folder: Where everything is.
        redis: The Redis.
        near: Nano-dollars after which it is killed; at most 20 dollars may be spent.
        after: Seconds of load from then on.
    """
    team = "closed"
    budget = BUDGET.format(name=team, limit=LIMITS[team])
    with ExitStack() as stack:
        made = stack.enter_context(gateways(folder, budget, redis.url, count=2))
        ledger = Ledger(made[0], redis.url)
        stack.callback(ledger.store.close, 5)
        key = {team: keys(ledger.store)[team]}
        caller_groups = [ConcurrentCallers(each.url, key, long_body) for each in made]
        with caller_groups[0].calling(), caller_groups[1].calling():
            end = time.monotonic() + 60
            while (before := ledger.spend_by_team().get(team, 0)) < near and time.monotonic() < end:
                time.sleep(0.05)
            for callers in caller_groups:
                callers.phase = "back"
            began = time.monotonic()
            redis.kill()
            redis.start()
            refused = 0.0
            while (past := time.monotonic() - began) < after:
                time.sleep(0.05)
                if any(each.met[-1].code == "budgets_unavailable" for each in caller_groups):
                    refused = past
        (level,) = ledger.levels([team])
        for each in made:
            each.stop()
        spent = ledger.spend_by_team()[team]
    everyone = ConcurrentCallers(
        "", key, long_body, met=[one for each in caller_groups for one in each.met]
    )
    rows = [row(everyone, phase, team) for phase in ("here", "back")]
    return RestartResult(before, spent, level.spent, refused, rows)


def long_body(number: int) -> bytes:
    """A call of some nine hundred tokens."""
    messages = [{"role": "user", "content": f"[[fault:words=600]] Call {number}."}]
    return orjson.dumps(DIME | {"messages": messages})


def gaps(ledger: Ledger) -> list[int]:
    """Excess of each counter over the ledger, which is a moment behind; below 0 a lack."""
    spent = ledger.spend_by_team()
    levels = ledger.levels(TEAMS)
    return [level.spent - spent[team] for team, level in zip(TEAMS, levels, strict=True)]


def exported_drift(gateway: ServeProcess) -> float:
    """The largest drift that the gateway's metrics tell."""
    page = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=10, verify=PLAIN).text
    return max(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith("thriftgate_budget_drift{")
    )


def row(callers: ConcurrentCallers, phase: str, team: str) -> TeamAnswers:
    """Return what a team met in a phase."""
    met = callers.of(phase, team)
    refused = sorted(each.seconds for each in met if each.status != 200)
    return TeamAnswers(
        phase=phase,
        team=team,
        statuses=Counter(each.status for each in met),
        codes={each.code for each in met} - {""},
        refused=refused[len(refused) * 99 // 100] if refused else 0.0,
        slowest=max((each.seconds for each in met), default=0.0),
        spent=sum(each.cost for each in met),
    )


def keys(store: Store) -> dict[str, str]:
    """A key of each team, made now."""
    keys_by_team = {}
    for name in TEAMS:
        team = store.teams.create(name, now=1_790_000_000.0)
        _, keys_by_team[name] = store.teams.create_key(team.id, "first", now=1_790_000_000.0)
    return keys_by_team


def tell_restarted(came: RestartResult) -> None:
    """Print what came of a Redis that was back at once."""
    before, back = came.rows
    print(
        f"\nKilled at ${came.before / NANOS:.3f} of ${LIMITS['closed']} and back at once, empty:"
        f" {back.statuses[503]} calls refused for {came.refused:.1f} s, then {back.statuses[200]}"
        f" answered and {back.statuses[429]} over the budget; in the end"
        f" ${came.spent / NANOS:.6f} in the ledger, ${came.counter / NANOS:.6f} counted"
        f" ({before.statuses[200]} calls before, codes {', '.join(sorted(back.codes))})"
    )


def tell(loss: Loss) -> None:
    """Print the table."""
    print("| on_loss | Redis | answered | refused | codes | refusal p99 | slowest | spent |")
    print("|---|---|--:|--:|---|--:|--:|--:|")
    for each in sorted(loss.rows, key=lambda each: TEAMS.index(each.team)):
        others = sum(each.statuses.values()) - each.statuses[200]
        print(
            f"| {each.team} | {each.phase} | {each.statuses[200]} | {others}"
            f" | {', '.join(sorted(each.codes)) or '-'} | {each.refused * 1000:.0f} ms"
            f" | {each.slowest * 1000:.0f} ms | ${each.spent:.3f} |"
        )
    lacked = ", ".join(f"{team} ${amount:.3f}" for team, amount in loss.lacked.items())
    print(
        f"\nOnce back, counters lacked {lacked}; nearly whole after {loss.repaired:.0f} s,", end=" "
    )
    print(f"whole after {loss.exact:.0f} s; drift {'was' if loss.drift else 'was not'} published.")
    for team, (ledger, counter) in loss.spent.items():
        print(f"{team}: ledger ${ledger / NANOS:.6f}, counter ${counter / NANOS:.6f}")


def main() -> None:
    """Print what came of both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lead", type=float, default=14.0)
    parser.add_argument("--away", type=float, default=4.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(3)]
        redis = stack.enter_context(own_redis(folders[0]))
        tell(lost(folders[0], redis, lead=options.lead, away=options.away))
        tell_restarted(restart_redis(folders[2], redis, near=NEAR, after=SETTLED_AFTER_S + 8))
        came = kill_one(folders[1], redis, waits=True)
    print_death(came)


if __name__ == "__main__":
    main()
