"""Attacks on what cache marks may lose: random features, providers, processes and restarts.

Calls are planned by real planners that share a store. A cache written from Anthropic's rules alone
charges for what was sent; the same call without a mark is what sending it directly costs.
"""

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

import msgspec
import orjson

from proxy.prefix.planned import Planned, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.objects import Unplannable
from proxy.services.planning.mark_accounts import EXCHANGE_INTERVAL_S, MarkAccountExchange
from proxy.store.store import Store
from slo.price import TokenRates
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    SECRET,
    TARGETS,
    body,
    chat_message,
    planning_request,
)

Json = dict[str, Any]
DAY_S: Final = 86_400.0
_CLAUDE: Final = TARGETS["anthropic-breakpoint"]
#: Seconds that an entry lives, and price of writing it in fresh tokens, by the lifetime asked for.
_LIVES_S: Final = {"5m": 300.0, "1h": 3_600.0}
_WRITES: Final = {"5m": 1.25, "1h": 2.0}
_LOOKBACK: Final = 20
_READ: Final = 0.1
#: Dollars of a million tokens; None is a model without a price, which costs this much all the same.
MODELS: Final = {"claude-sonnet-5": 3.0, "claude-opus-5": 10.0, "claude-haiku-5": 1.0}
UNPRICED: Final = "claude-next-1"
_UNPRICED_DOLLARS: Final = 20.0


def target_of(model: str, factor: float) -> PlanningTarget:
    """The target of a model whose prices are so many times the usual ones."""
    price = MODELS.get(model)
    rates = None if price is None else TokenRates(input=round(price * factor * 1e9))
    return msgspec.structs.replace(_CLAUDE, model=model, rates=rates)


class MarkedCache:
    """A cache that stores what a mark ends, for its lifetime, and looks back twenty blocks.

    Source: Anthropic, prompt caching (2026-11).

    Args:
        reads: True if a call reads what it should.
    """

    def __init__(self, reads: Callable[[], bool]) -> None:
        self._reads = reads
        self._entries: dict[int, tuple[float, float, str]] = {}

    def serve(self, raw: bytes, now: float) -> Usage:
        """Usage of a call at this time."""
        points = list(_points(orjson.loads(raw)["messages"]))
        marks = [index for index, (*_, ttl) in enumerate(points) if ttl]
        total = points[-1][1]
        if not marks or points[marks[-1]][1] < _CLAUDE.regime.least:
            return Usage(input=total)
        end = points[marks[-1]][1]
        read = self._read(points, marks, now) if self._reads() else 0
        written, start = dict.fromkeys(_LIVES_S, 0), read
        for mark in marks:
            key, tokens, ttl = points[mark]
            if tokens > start and tokens >= _CLAUDE.regime.least:
                self._entries[key] = now + 0.9, now + _LIVES_S[ttl], ttl
                written[ttl] += tokens - start
                start = tokens
        return Usage(
            input=total - end, cache_read=read, write_5m=written["5m"], write_1h=written["1h"]
        )

    def _read(self, points: list[tuple[int, int, str]], marks: list[int], now: float) -> int:
        """Tokens of the longest live entry that a mark reaches; it lives on."""
        reached = {
            index for mark in marks for index in range(max(0, mark - _LOOKBACK + 1), mark + 1)
        }
        for index in sorted(reached, reverse=True):
            key, tokens, _ = points[index]
            since, until, ttl = self._entries.get(key, (now, now, ""))
            if since < now < until:
                self._entries[key] = since, now + _LIVES_S[ttl], ttl
                return tokens
        return 0


def _points(messages: list[Json]) -> Iterator[tuple[int, int, str]]:
    """Each block's prefix, its tokens and the lifetime of the mark that ends it; "" for none."""
    prefix, size = 0, 0
    for message in messages:
        content = message["content"]
        parts: list[Json] = [{"text": content}] if isinstance(content, str) else content
        text = ""
        for part in parts:
            text += part["text"]
            size += len(part["text"])
            ttl = part["cache_control"].get("ttl", "5m") if "cache_control" in part else ""
            yield hash((prefix, message["role"], text)), size // 4, ttl
        prefix = hash((prefix, message["role"], text))


@dataclass(frozen=True, kw_only=True)
class AttackCall:
    """A call of an attack: when it begins, how long it takes, and what it says."""

    at: float
    seconds: float
    feature: str
    model: str
    body: bytes


@dataclass(kw_only=True)
class FeatureLosses:
    """Costs of one feature beside sending its calls directly, in dollars."""

    extra: float = 0.0
    dearest: float = 0.0
    surcharge: float = 0.0
    direct: float = 0.0
    calls: int = 0


@dataclass(kw_only=True)
class Attack:
    """An attack of so many calls on one team.

    Attributes:
        features: Features that call.
        calls: Calls in all, about.
        factor: Times the usual price of tokens.
        processes: Processes that take calls in turn.
        restarts: Restarts, half of which store nothing of the last two seconds.
        never_read: Part of the features whose provider never reads.
        span: Seconds in which conversations begin.
        pauses: Mean seconds between the calls of a conversation, one of these each.
        marked: Calls that were sent with marks.
        hours: Those that wrote for an hour.
    """

    seed: int
    features: int = 12
    calls: int = 1_200
    factor: float = 1.0
    processes: int = 1
    restarts: int = 0
    never_read: float = 0.3
    span: float = 3_600.0
    pauses: tuple[float, ...] = (5.0, 40.0, 400.0, 2_000.0)
    losses: dict[str, FeatureLosses] = field(default_factory=lambda: defaultdict(FeatureLosses))
    team_days: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    marked: int = 0
    hours: int = 0

    def run(self, store: Store) -> None:
        """Make all calls, and count what they cost."""
        dice = random.Random(self.seed)  # noqa: S311 - no secret
        fleet = _Fleet(store, self.processes)
        caches = {name: _cache(dice, self.never_read) for name in self._names()}
        numbers = count()
        events: list[tuple[float, int, Any]] = []
        for call in self._calls(dice):
            heappush(events, (call.at, next(numbers), call))
        for _ in range(self.restarts):
            heappush(events, (NOW + dice.uniform(0.0, self.span), next(numbers), None))
        while events:
            now, _, event = heappop(events)
            fleet.advance(now)
            if event is None:
                fleet.restart(dice.randrange(self.processes), is_crash=dice.random() < 0.5)
            elif isinstance(event, AttackCall):
                process = dice.randrange(self.processes)
                planner, planned = fleet.plan(process, event, self.factor)
                raw = event.body if planned is None else planned.body
                self.marked += b"cache_control" in raw
                usage = caches[event.feature].serve(raw, now)
                end = now + event.seconds
                heappush(events, (end, next(numbers), (planner, planned, usage, event)))
            else:
                planner, planned, usage, call = event
                self._count(call, usage, now)
                if planned is not None and planner in fleet.planners:
                    planner.settle_call(planned, usage)
                    planner.end_call(planned)

    def _names(self) -> list[str]:
        return [f"feature {number}" for number in range(self.features)]

    def _calls(self, dice: random.Random) -> Iterator[AttackCall]:
        calls_each = max(1, self.calls // self.features)
        for name in self._names():
            models = dice.sample([*MODELS, UNPRICED], dice.randint(1, 4))
            rules = f"{name}\n{RULES * dice.randint(1, 4)}"
            repeats, left = dice.random() < 0.7, calls_each
            while left > 0:
                turns = min(left, dice.choice((1, 1, 2, 5, 20)))
                left -= turns
                start = rules if repeats else f"{dice.random()}\n{rules}"
                yield from self._conversation(dice, name, dice.choice(models), start, turns)

    def _conversation(
        self, dice: random.Random, name: str, model: str, start: str, turns: int
    ) -> Iterator[AttackCall]:
        second = NOW + dice.uniform(0.0, self.span)
        pause = dice.choice(self.pauses)
        messages = [chat_message("system", start)]
        for turn in range(turns):
            note = RULES[: dice.choice((20, 20, 4_000))]
            messages.append(chat_message("user", f"{dice.random()}: question {turn}? {note}"))
            seconds = dice.uniform(0.5, 20.0)
            yield AttackCall(
                at=second, seconds=seconds, feature=name, model=model, body=body(*messages)
            )
            messages.append(chat_message("assistant", f"Answer {turn}."))
            second += seconds + dice.expovariate(1.0 / pause)

    def _count(self, call: AttackCall, usage: Usage, now: float) -> None:
        price = self.factor * MODELS[call.model] if call.model in MODELS else _UNPRICED_DOLLARS
        price /= 1e6
        total = usage.prompt_tokens
        paid = usage.input + _READ * usage.cache_read
        paid += _WRITES["5m"] * usage.write_5m + _WRITES["1h"] * usage.write_1h
        dearest = _WRITES["1h" if usage.write_1h else "5m"]
        self.hours += usage.write_1h > 0
        losses = self.losses[call.feature]
        before = max(0.0, losses.extra)
        losses.extra += (paid - total) * price
        losses.dearest = max(losses.dearest, losses.extra)
        losses.surcharge = max(losses.surcharge, (dearest - 1.0) * total * price)
        losses.direct += total * price
        losses.calls += 1
        self.team_days[int(now // DAY_S)] += max(0.0, losses.extra) - before


def _cache(dice: random.Random, never_read: float) -> MarkedCache:
    rate = 0.0 if dice.random() < never_read else dice.choice((1.0, 1.0, 0.9, 0.3))
    return MarkedCache(lambda: dice.random() < rate)


class _Fleet:
    """Processes of one installation, on a clock that the attack moves."""

    def __init__(self, store: Store, processes: int) -> None:
        self._store, self._now, self._exchanged = store, NOW, 0.0
        self.planners: list[Planner] = []
        self._exchanges: list[MarkAccountExchange] = []
        for _ in range(processes):
            self._start(len(self.planners))

    def _start(self, index: int) -> None:
        planner = Planner(SECRET, share=0.0)
        lock = threading.Lock()
        exchange = MarkAccountExchange(planner.memory, lock, self._store, lambda: self._now)
        self.planners[index : index + 1] = [planner]
        self._exchanges[index : index + 1] = [exchange]
        exchange._adopt_all(0.0, self._now)

    def advance(self, now: float) -> None:
        """Move the clock; processes exchange what they counted where it is time."""
        self._now = now
        if now - self._exchanged >= EXCHANGE_INTERVAL_S:
            for exchange in self._exchanges:
                exchange._store_news(now)
                exchange._adopt_all(self._exchanged - 10.0, now)
            self._exchanged = now

    def restart(self, index: int, *, is_crash: bool) -> None:
        """Start a process anew; where it does not crash, it stores what it counted."""
        if not is_crash:
            self._exchanges[index]._store_news(self._now, ends=True)
        self._start(index)

    def plan(self, index: int, call: AttackCall, factor: float) -> tuple[Planner, Planned | None]:
        """A call as a process sends it; None where it goes unmodified."""
        planner = self.planners[index]
        try:
            draft = planner.read_call(planning_request(call.body, feature=call.feature))
            plan = planner.known_plan(draft) or planner.begin_plan(draft, 0)
            target = target_of(call.model, factor)
            planned = planner.plan_call(draft, target, plan, None, self._now)
        except Unplannable:
            return planner, None
        planner.adopt_plan(draft, planned.plan)
        return planner, planned
