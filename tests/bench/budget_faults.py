# ruff: noqa: T201 - a script prints its result
"""Budgets while Redis dies and while a gateway does: what callers saw, what was spent.

First a Redis of its own is held up, killed and started again, empty, under calls of three teams,
one for each ``on_loss``. Then it is killed and started again at once, empty, when a closed budget
is nearly spent. Then two gateways hold calls that do not end, and one is killed: what it
held counts until its time is over, then is free. Usage: python -m tests.bench.budget_faults
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import orjson

from proxy.services.budgets.counter_loss import TTL_S
from proxy.services.budgets.counters import open_budget_store
from proxy.services.budgets.reconciliation import SETTLED_AFTER_S
from proxy.settings import Settings
from proxy.store.redis.budget_store import RedisBudgetStore
from proxy.store.store import Store
from slo.budget import OnStoreLoss
from slo.reservations import CounterLevel
from tests.fakes.background_loop import running_in_thread
from tests.fakes.budget_gateway import DEAR, DIME, FIVE
from tests.fakes.concurrent_callers import ConcurrentCallers
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN
from tests.fakes.redis_server import OwnRedis, own_redis
from tests.fakes.replicas import Sibling
from tests.fakes.serve_process import ServeProcess, serve_process

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
#: Calls of ten cents in half of five dollars.
HALF = 25
_NANOS = 1_000_000_000
#: What a counter may lack under load when it is repaired: what is spent in less than a second.
NEARLY = _NANOS // 2
#: Of 20 dollars, what is spent when Redis is killed.
NEAR = 18 * _NANOS
_DIME = _NANOS // 10


@dataclass(frozen=True)
class Row:
    """What a team's callers met in a phase.

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
    """What came of a lost Redis.

    Attributes:
        rows: By phase and team.
        lacked: Dollars that each team's counter lacked when Redis was back.
        repaired: Seconds from then until every counter was nearly what the ledger said, under load.
        exact: Seconds until no counter lacked anything, once nobody called any more.
        drift: Whether a lack was published meanwhile.
        spent: In the end, in nano-dollars, by team: of the ledger, and of its counter.
    """

    rows: Sequence[Row]
    lacked: dict[str, float]
    repaired: float
    exact: float
    drift: bool
    spent: dict[str, tuple[int, int]]


class Ledger:
    """The ledger and the counters of a gateway, read beside it."""

    def __init__(self, gateway: ServeProcess, redis_url: str) -> None:
        self.store = Store.open(gateway.database_url, gateway.folder / "beside")
        self._settings = Settings(redis_url=redis_url)

    def spent(self) -> dict[str, int]:
        """Nano-dollars of each team."""
        found = self.store.spendings.from_rollups("team", 0, 2e10)
        return {team: each.nanos for team, each in found.items()}

    def levels(self, names: Sequence[str]) -> list[CounterLevel]:
        """Return what the counters of these names' first parts say, wherever their windows are."""
        return asyncio.run(self.counted(names))

    async def counted(self, names: Sequence[str]) -> list[CounterLevel]:
        """The same, on a loop that runs."""
        asked = open_budget_store(self._settings, self.store)
        assert isinstance(asked, RedisBudgetStore)
        now = time.time()  # noqa: TID251 - the gateway's windows are the machine's
        try:
            found = [
                (
                    await asked.levels(await asked.counters_from(f"{name}/", 1), now)
                    or [CounterLevel(0, 0)]
                )[0]
                for name in names
            ]
        finally:
            await asked.aclose()
        return found


def body(number: int) -> bytes:
    """A call of some ninety tokens, of which a thousand cost ten cents."""
    said = [{"role": "user", "content": f"[[fault:words=60]] Call {number}."}]
    return orjson.dumps(DIME | {"messages": said})


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
            before = ledger.spent()
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
                team: (before[team] - level.spent) / _NANOS
                for team, level in zip(TEAMS, ledger.levels(TEAMS), strict=True)
            }
            end = began + 6 * SETTLED_AFTER_S
            while time.monotonic() < end and (not drift or min(gaps(ledger)) < -NEARLY):
                drift = drift or published(gateway) > 0
                time.sleep(0.1)
            repaired = time.monotonic() - began
        while min(gaps(ledger)) < 0 and time.monotonic() < end:
            time.sleep(0.5)
        exact = time.monotonic() - began
        gateway.stop()  # leases are given back then, and the journal is in the ledger
        said, spent = ledger.levels(TEAMS), ledger.spent()
    return Loss(
        rows=[row(callers, phase, team) for phase in PHASES for team in TEAMS],
        lacked=lacked,
        repaired=repaired,
        exact=exact,
        drift=drift,
        spent={team: (spent[team], said[n].spent) for n, team in enumerate(TEAMS)},
    )


@dataclass(frozen=True)
class Restarted:
    """What came of a Redis that was back at once, and empty, when a closed budget was nearly spent.

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
    rows: Sequence[Row]


def restarted(folder: Path, redis: OwnRedis, *, near: int, after: float) -> Restarted:
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
            while (before := ledger.spent().get(team, 0)) < near and time.monotonic() < end:
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
        spent = ledger.spent()[team]
    everyone = ConcurrentCallers(
        "", key, long_body, met=[one for each in caller_groups for one in each.met]
    )
    rows = [row(everyone, phase, team) for phase in ("here", "back")]
    return Restarted(before, spent, level.spent, refused, rows)


def long_body(number: int) -> bytes:
    """A call of some nine hundred tokens."""
    said = [{"role": "user", "content": f"[[fault:words=600]] Call {number}."}]
    return orjson.dumps(DIME | {"messages": said})


def gaps(ledger: Ledger) -> list[int]:
    """Excess of each counter over the ledger, which is a moment behind; below 0 a lack."""
    known = ledger.spent()
    levels = ledger.levels(TEAMS)
    return [level.spent - known[team] for team, level in zip(TEAMS, levels, strict=True)]


def published(gateway: ServeProcess) -> float:
    """The largest drift that the gateway's metrics tell."""
    page = httpx.get(f"{gateway.url}/metrics", trust_env=False, timeout=10, verify=PLAIN).text
    return max(
        float(line.rpartition(" ")[2])
        for line in page.splitlines()
        if line.startswith("thriftgate_budget_drift{")
    )


def row(callers: ConcurrentCallers, phase: str, team: str) -> Row:
    """Return what a team met in a phase."""
    met = callers.of(phase, team)
    refused = sorted(each.seconds for each in met if each.status != 200)
    return Row(
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
    found = {}
    for name in TEAMS:
        team = store.teams.create(name, now=1_790_000_000.0)
        _, found[name] = store.teams.create_key(team.id, "first", now=1_790_000_000.0)
    return found


@contextmanager
def gateways(
    folder: Path, budgets: str, redis_url: str, *, count: int
) -> Iterator[list[ServeProcess]]:
    """So many gateways on one ledger and one Redis, before one lab."""
    (folder / "policies.toml").write_text(budgets)
    with ExitStack() as stack:
        _, catalog = stack.enter_context(
            running_in_thread(partial(running_simulator, folder, time_scale=0.0001))
        )
        catalog.write_text(catalog.read_text() + DEAR)
        made = [stack.enter_context(serve_process(folder, catalog))]
        for number in range(1, count):
            (folder / f"{number}").mkdir()
            made.append(Sibling(made[0], folder / f"{number}"))
            stack.callback(made[-1].kill)
        for each in made:
            each.start(
                THRIFTGATE_POLICIES=f"{folder / 'policies.toml'}", THRIFTGATE_REDIS_URL=redis_url
            )
        yield made


@dataclass(frozen=True)
class Killed:
    """What came of killing one of two gateways, each with half of the budget under way.

    Attributes:
        held: Dollars held, as a refused caller of the other gateway was told: before, and after.
        frees: Seconds until something is free, as it was told after.
        waited: Seconds from the kill until all that the dead one held was free; None if nobody
            waited.
        admitted: How many of the calls were sent that then asked for all of the budget.
        level: What the counter said once all calls of the living one had ended.
        spent: What the ledger said then, in nano-dollars.
    """

    held: tuple[str, str]
    frees: float
    waited: float | None
    admitted: int
    level: CounterLevel
    spent: int


def killed(folder: Path, redis: OwnRedis, *, waits: bool) -> Killed:
    """Kill one of two gateways that share a budget of fifty calls, each with half of them.

    Args:
        folder: Where everything is.
        redis: Where they count.
        waits: Whether to wait until what the dead one held is free, which takes a minute.
    """
    return asyncio.run(_killed(folder, redis, waits=waits))


async def _killed(folder: Path, redis: OwnRedis, *, waits: bool) -> Killed:
    async with AsyncExitStack() as stack:
        first, second = stack.enter_context(gateways(folder, FIVE, redis.url, count=2))
        ledger = Ledger(second, redis.url)
        stack.callback(ledger.store.close, 5)
        limits = httpx.Limits(max_connections=200)
        client = await stack.enter_async_context(
            httpx.AsyncClient(trust_env=False, timeout=TTL_S * 3, limits=limits, verify=PLAIN)
        )
        hanging = [
            asyncio.ensure_future(call(client, gateway, "[[fault:hang]] Well?"))
            for gateway in (first, second)
            for _ in range(HALF)
        ]
        await until(ledger, lambda level: level.held == 2 * HALF * _DIME)
        before, _ = await refused(client, second)
        await asyncio.to_thread(first.kill)
        began = time.monotonic()
        after, frees = await refused(client, second)
        waited = None
        if waits:
            await until(ledger, lambda level: level.held <= HALF * _DIME)
            waited = time.monotonic() - began
        more = [call(client, second, "[[fault:hang]] And?", patience=3) for _ in range(2 * HALF)]
        answers = await asyncio.gather(*more, return_exceptions=True)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        left = 0 if waits else HALF * _DIME
        level = await until(ledger, lambda level: level.held <= left)
        await asyncio.to_thread(second.stop)
        spent = sum(ledger.spent().values())
    admitted = sum(isinstance(each, httpx.TimeoutException) for each in answers)
    return Killed((before, after), frees, waited, admitted, level, spent)


async def until(ledger: Ledger, is_so: Callable[[CounterLevel], bool]) -> CounterLevel:
    """The counter once this is so of it, or as it stands after a while."""
    end = time.monotonic() + 1.5 * TTL_S
    (level,) = await ledger.counted(["day"])
    while not is_so(level) and time.monotonic() < end:
        await asyncio.sleep(0.25)
        (level,) = await ledger.counted(["day"])
    return level


async def refused(client: httpx.AsyncClient, gateway: ServeProcess) -> tuple[str, float]:
    """Dollars held and seconds to wait, as a caller is told once nothing is free."""
    for _ in range(400):
        answer = await call(client, gateway, "[[fault:words=1]] Me too?")
        if answer.status_code == 429:
            return str(answer.json()["error"]["held"]), float(answer.headers["retry-after"])
        await asyncio.sleep(0.05)
    raise AssertionError("nothing is refused")


async def call(
    client: httpx.AsyncClient, gateway: ServeProcess, text: str, patience: float = TTL_S * 3
) -> httpx.Response:
    """The answer of a gateway to a call of ten cents at most."""
    return await client.post(
        f"{gateway.url}/v1/chat/completions",
        json=DIME | {"messages": [{"role": "user", "content": text}]},
        headers={"authorization": f"Bearer {gateway.key}"},
        timeout=patience,
    )


def tell_restarted(came: Restarted) -> None:
    """Print what came of a Redis that was back at once."""
    before, back = came.rows
    print(
        f"\nKilled at ${came.before / _NANOS:.3f} of ${LIMITS['closed']} and back at once, empty:"
        f" {back.statuses[503]} calls refused for {came.refused:.1f} s, then {back.statuses[200]}"
        f" answered and {back.statuses[429]} over the budget; in the end"
        f" ${came.spent / _NANOS:.6f} in the ledger, ${came.counter / _NANOS:.6f} counted"
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
        print(f"{team}: ledger ${ledger / _NANOS:.6f}, counter ${counter / _NANOS:.6f}")


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
        tell_restarted(restarted(folders[2], redis, near=NEAR, after=SETTLED_AFTER_S + 8))
        came = killed(folders[1], redis, waits=True)
    print(
        f"\nKill -9 of one of two gateways with {HALF} calls each: ${came.held[0]} held"
        f" before, ${came.held[1]} after; told to come back in {came.frees:.1f} s; free after"
        f" {came.waited:.1f} s; then {came.admitted} calls of ten cents fit; in the end"
        f" ${came.level.held / _NANOS:.3f} held, ${came.level.spent / _NANOS:.6f} spent,"
        f" ${came.spent / _NANOS:.6f} in the ledger"
    )


if __name__ == "__main__":
    main()
