"""Cells of the table live: a gateway in its default mode beside the simulator asked directly.

::

    callers ──┬── the bytes a caller's client sends ─────────────────▶ simulator 1
              └── the same bytes ──▶ gateway, default settings ──────▶ simulator 2

Both simulators behave alike and start empty with every batch. All of it runs on one loop whose time
leaps, so answers take the simulator's time and overlap as they would, and hours take seconds. All
models of a batch share that time; each has a team, so nothing learned goes from one to another. The
gateway learns before time goes on, so two runs bill the same.
What is billed is what each simulator counted, at the catalog's prices.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from sqlalchemy import insert

from dashboards.reports import SpendFilter, latest_days
from proxy.calls.eligibility.route_target import route_target
from proxy.calls.translation.translation import prepare
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import CallerError
from proxy.prefix.planned import PlanningTarget
from proxy.services.reports.savings_figures import SavingsFigures
from proxy.settings import Settings
from proxy.store.sql import schema
from proxy.store.sql.access.teams import KEY_LENGTH, token_hash
from proxy.store.sql.database import write_transaction
from proxy.store.store import Store
from proxy.tools.simulator.app import app as simulator
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from slo.price import call_cost
from slo.usage import Usage
from tests.bench.accounted_calls import CallRecorder
from tests.bench.no_harm_gateways import GatewayProcesses
from tests.bench.no_harm_replay import (
    START,
    JudgedSavings,
    Side,
    WorkloadCell,
    may_lose,
    pace,
)
from tests.bench.no_harm_routes import call_recorders, catalog, new_upstream
from tests.fakes.call_dependencies import call
from tests.fakes.http_caller import HttpAnswer, HttpCaller
from tests.fakes.workloads import TimedCall, Workload

if TYPE_CHECKING:
    from tests.bench.no_harm_served import ServedProcesses

_BYTES_PER_TOKEN = 4
#: Statuses from which on a call was not answered.
_REFUSED = 400


@dataclass(frozen=True)
class _Answers:
    """Calls refused, and why a cell is none: a call was refused on one side alone; by model."""

    refused: dict[str, int]
    uneven: dict[str, str]
    #: Feature and tokens, about, of each call.
    prompts: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class _PairedCall:
    """A call that is made both ways.

    Attributes:
        body: Of a chat call.
        key: Of the gateway.
        is_native: True if the gateway gets it in Anthropic's API, as it is sent directly.
    """

    body: bytes
    feature: str
    model: str
    key: str
    is_native: bool


@dataclass(frozen=True)
class ComparedGateway:
    """A gateway before its simulator, and the other simulator.

    Attributes:
        direct: What speaks to the simulator that is asked directly.
        processes: The gateway's; calls go to them by turns.
        upstreams: The simulator that is asked directly, and the gateway's.
        recorders: Their calls, for the second accounting.
        judges: True if that judges what is saved.
    """

    known: Catalog
    direct: HttpCaller
    processes: "GatewayProcesses | ServedProcesses"
    upstreams: tuple[Simulator, Simulator]
    recorders: tuple[CallRecorder, CallRecorder]
    clock: Callable[[], float]
    judges: bool = False
    numbers: list[int] = field(default_factory=lambda: [0])

    async def cells(
        self,
        workload: Workload,
        calls: Sequence[TimedCall],
        models: Sequence[str],
        rate: float,
        *,
        is_native: bool = False,
    ) -> list[WorkloadCell]:
        """The totals of a workload's calls on each model.

        Args:
            calls: Its calls and their times.
            models: Their public names.
            rate: Calls a minute.
            is_native: True if the calls are made in Anthropic's API, of models that speak it.
        """
        self._empty()
        self.numbers[0] += 1
        callers = {name: f"{self.numbers[0]}-{name}" for name in models}
        keys = {name: _caller(self.processes.store, caller) for name, caller in callers.items()}
        began, middle = asyncio.get_running_loop().time(), len(calls) // 2
        answers = _Answers(dict.fromkeys(models, 0), dict.fromkeys(models, ""))

        async def send(part: Sequence[TimedCall]) -> None:
            async with asyncio.TaskGroup() as group:
                for turn in part:
                    await _sleep_until(began + turn.at)
                    for name in models:
                        body = turn.body(workload, name, self.known.models[name].routes[0].regime)
                        feature = turn.session.feature
                        pair = _PairedCall(body, feature, name, keys[name], is_native)
                        group.create_task(self._both(pair, answers))

        await send(calls[:middle])
        await self.processes.pass_middle()
        await send(calls[middle:])
        await asyncio.sleep(self.processes.pause_s)
        sides = [_sides(upstream, self.known, models) for upstream in self.upstreams]
        return [
            WorkloadCell(
                how="live", workload=workload.name, model=name, rate=rate, pace=pace(calls),
                calls=len(calls) - answers.refused[name], left_out=answers.refused[name],
                why=answers.uneven[name], direct=sides[0][name], gateway=sides[1][name],
                may_lose=may_lose(answers.prompts, self._target(name)),
                claimed=self._claimed_dollars(callers[name]), judged=self._judged_savings(name),
                layouts=self._layouts_in_force(callers[name]),
            )
            for name in models
        ]  # fmt: skip

    def _claimed_dollars(self, caller: str) -> float:
        """Dollars that ``thriftgate savings`` says were saved by a caller's calls."""
        self.processes.flush()
        figures = SavingsFigures(self.processes.store, lambda: self.known, self.clock)
        only = SpendFilter(teams=frozenset({f"team_{caller}"}))
        return figures.headline(latest_days(self.clock(), 30), only).saved_nanos / 1e9

    def _layouts_in_force(self, caller: str) -> Mapping[str, int]:
        """Versions of the layouts of a caller's features, of those that have one."""
        states, now = self.processes.store.layouts.states(), self.clock()
        versions = {
            place.feature: states.of(place).layout_version(now)
            for place in states.places
            if place.team == f"team_{caller}"
        }
        return {feature: version for feature, version in versions.items() if version}

    def _judged_savings(self, name: str) -> JudgedSavings | None:
        """A model's savings by the second accounting; None where it does not judge."""
        if not self.judges:
            return None
        direct, gateway = (recorder.judge(name) for recorder in self.recorders)
        if direct is None or gateway is None:
            return None
        paid = sum(direct.dollars)
        saved = paid - sum(gateway.dollars)
        return JudgedSavings(paid, saved, direct.differing + gateway.differing)

    def _target(self, name: str) -> PlanningTarget:
        return route_target(self.known.models[name].routes[0], name, START)

    async def _both(self, paired_call: "_PairedCall", answers: "_Answers") -> None:
        """Make one call both ways, at the same moment."""
        model, name = self.known.models[paired_call.model], paired_call.model
        answers.prompts.append((paired_call.feature, len(paired_call.body) // _BYTES_PER_TOKEN))
        headers = {"authorization": f"Bearer {paired_call.key}"}
        if paired_call.feature:
            headers["x-thriftgate-feature"] = paired_call.feature
        path, body = "/chat/completions", paired_call.body
        if paired_call.is_native:
            path, body = "/messages", prepare(call(body), model.routes[0]).body
        direct, gateway = await asyncio.gather(
            self._directly(paired_call.body, model), self.processes.post(path, body, headers)
        )
        is_refused = direct is None or direct.status >= _REFUSED
        answers.refused[name] += is_refused
        if is_refused != (gateway.status >= _REFUSED):
            answer = "" if direct is None else f"{direct.status} {direct.body[:60]!r}"
            answers.uneven[name] = (
                f"directly {answer or 'not sayable'}, "
                f"gateway {gateway.status} {gateway.body[:60]!r}"
            )

    async def _directly(self, body: bytes, model: Model) -> HttpAnswer | None:
        """The answer of the simulator; None where the route's wire cannot say the call."""
        route = model.routes[0]
        try:
            prepared = prepare(call(body), route)
        except CallerError:
            return None
        headers = {**prepared.headers, **route.upstream.headers}
        return await self.direct.post(prepared.path, prepared.body, headers)

    def _empty(self) -> None:
        for upstream, recorder in zip(self.upstreams, self.recorders, strict=True):
            models = upstream.settings.models.items()
            upstream._caches.update({name: recorder.cache_of(model) for name, model in models})
            upstream.exchanges.clear()
            recorder.calls.clear()


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))


@asynccontextmanager
async def beside(
    folder: Path,
    *,
    processes: int = 1,
    is_restarted: bool = False,
    approves: bool = False,
    judges: bool = False,
    **given: object,
) -> AsyncIterator[ComparedGateway]:
    """A running one, on a loop in virtual time.

    Args:
        folder: Where the gateway keeps what is its own.
        processes: Processes of the gateway.
        is_restarted: True if they restart in the middle of each batch.
        approves: True if layouts that were proposed are approved there.
        judges: True if the second accounting judges what is saved, too.
        given: Settings that are not at their defaults.
    """
    loop = asyncio.get_running_loop()

    def clock() -> float:
        return START + loop.time()

    behind, direct = (new_upstream(clock) for _ in range(2))
    upstreams = direct, behind
    async with serving(simulator(behind)) as url, serving(simulator(direct)) as direct_url:
        _, file = catalog(folder, url)
        settings = Settings(folder=folder / "gateway", catalog=file).model_copy(update=given)
        gateway = GatewayProcesses(settings, clock, processes, is_restarted, approves)
        direct_caller = HttpCaller(direct_url, "sk-simulated")
        try:
            models = await gateway.start()
            recorders = call_recorders(upstreams)
            yield ComparedGateway(
                models, direct_caller, gateway, upstreams, recorders, clock, judges
            )
        finally:
            await gateway.stop()
            await direct_caller.close()


def _caller(store: Store, name: str) -> str:
    """The key of a new team; ids are the same in every run, so that the same arms are drawn."""
    team, key = f"team_{name}", f"tg-{name}-".ljust(KEY_LENGTH, "s")
    now = {"created": 0}
    row = {"id": team, "name": name, "keeps_prompts": 0, **now}
    own = {"id": f"key_{name}", "team": team, "name": name, "hash": token_hash(key), **now}
    with write_transaction(store.teams._engine) as connection:
        connection.execute(insert(schema.teams).values(row))
        connection.execute(insert(schema.keys).values({**own, "hint": "", "feature": ""}))
    return key


def _sides(upstream: Simulator, known: Catalog, models: Sequence[str]) -> Mapping[str, Side]:
    """Charges for each model."""
    charged: dict[str, list[tuple[Usage, int]]] = {name: [] for name in models}
    for exchange in upstream.exchanges:
        if exchange.usage is None:
            continue
        name = orjson.loads(exchange.body)["model"]
        tariff = known.models[name].routes[0].tariff
        paid = None if tariff is None else call_cost(exchange.usage, tariff, START)
        charged[name].append((exchange.usage, paid.effective_nanos if paid else 0))
    return {name: _side(each) for name, each in charged.items()}


def _side(charged: Sequence[tuple[Usage, int]]) -> Side:
    return Side(
        dollars=sum(nanos for _, nanos in charged) / 1e9,
        prompt=sum(usage.prompt_tokens for usage, _ in charged),
        read=sum(usage.cache_read for usage, _ in charged),
        written=sum(usage.cache_write_tokens for usage, _ in charged),
    )
