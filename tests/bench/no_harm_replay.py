"""One cell of the table in replay: what the default mode sends, over what the caller sent.

The calls are replayed as ``thriftgate replay`` does, its row "by default" over its row "as sent",
with two differences: no caller names its conversation, for callers of the default mode do not, and
no conversation is in the control arm. In mode ``observe`` it is the row "without layouts". With
``is_native`` the calls are those that a client of Anthropic's API sends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

import orjson

from proxy.caches.port import CachedPrompt
from proxy.calls.eligibility.route_target import route_target
from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Model, Route
from proxy.errors import CallerError, OperatorError
from proxy.prefix.planned import PlanningTarget
from proxy.records.mark_account import STAKE_UNITS_PER_DOLLAR
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import ModelReplay
from proxy.tools.replay.variant_totals import VariantTotals, sum_of
from proxy.tools.simulator.rendering import Vocabulary
from tests.fakes.call_dependencies import call as chat_call
from tests.fakes.workloads import TimedCall, Workload

_DAY_S = 86_400.0
#: Dollars that a feature may lose by default.
STAKE = 0.01
#: No workload of many calls may cost more than so many times what it costs directly.
LIMIT: Final = 1.0005
#: Calls from which on the ratio alone counts.
MANY_CALLS: Final = 1_000
#: A Monday at noon UTC: one price of the day holds for hours.
START = 1_795_400_000.0 // _DAY_S * _DAY_S + _DAY_S / 2


@dataclass(frozen=True, kw_only=True)
class Side:
    """Tokens and dollars of one way to send the calls; dollars are of all calls."""

    dollars: float
    prompt: int
    read: int
    written: int


@dataclass(frozen=True)
class JudgedSavings:
    """The second accounting of a cell.

    Attributes:
        direct: Prompt dollars of the calls sent directly.
        saved: Prompt dollars that they cost more than through the gateway.
        differing: Calls that were billed other tokens than it accounts.
    """

    direct: float
    saved: float
    differing: int


@dataclass(frozen=True, kw_only=True)
class WorkloadCell:
    """A workload on a model at a rate.

    Attributes:
        how: ``replay`` or ``live``.
        rate: Calls a minute that were asked for.
        pace: Calls a minute that were made.
        left_out: Calls that this route does not take, either way.
        may_lose: Dollars that its features may cost more than sent directly: the stake of each, or
            the surcharge of writing its longest prompt where that is more.
        window_extra: Dollars by which the dearest ``MANY_CALLS`` in a row cost more than ``LIMIT``
            times direct; None where there are fewer, and live.
        claimed: Dollars that the gateway's own report says were saved; None where none was asked.
        judged: The second accounting's savings; None where it was not asked, or has no prices.
        layouts: Versions of layouts in force at the end, by feature; live alone.
        why: What went wrong with the cell as a whole; "" where nothing did.
    """

    how: str
    workload: str
    model: str
    rate: float
    pace: float = 0.0
    calls: int = 0
    left_out: int = 0
    direct: Side | None = None
    gateway: Side | None = None
    may_lose: float = STAKE
    window_extra: float | None = None
    claimed: float | None = None
    judged: JudgedSavings | None = None
    layouts: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """Through the gateway over sent directly; None where nothing was paid."""
        if self.direct is None or self.gateway is None or not self.direct.dollars:
            return None
        return self.gateway.dollars / self.direct.dollars

    @property
    def extra_dollars(self) -> float | None:
        """Dollars that the gateway cost more than sending directly; below 0 where it cost less."""
        if self.direct is None or self.gateway is None:
            return None
        return self.gateway.dollars - self.direct.dollars

    @property
    def claim_error(self) -> float | None:
        """Dollars that the report claims beyond the real saving, as a part of the direct cost.

        By the second accounting where that judged, which counts prompts alone.
        """
        if self.claimed is not None and self.judged is not None and self.judged.direct:
            return (self.claimed - self.judged.saved) / self.judged.direct
        if self.claimed is None or self.direct is None or not self.direct.dollars:
            return None
        return (self.claimed + (self.extra_dollars or 0.0)) / self.direct.dollars


def pace(calls: Sequence[TimedCall]) -> float:
    """Calls a minute that were made."""
    span = calls[-1].at - calls[0].at if calls else 0.0
    return 60 * (len(calls) - 1) / span if span else 0.0


class Replayer:
    """Replays calls on models; remembers the tokens of texts from one cell to the next.

    Args:
        stake: Dollars that a feature may lose.
        is_auto: True if layouts approve themselves.
    """

    def __init__(self, *, stake: float = STAKE, is_auto: bool = True) -> None:
        self._vocabulary = LineVocabulary()
        self._stake = stake
        self._is_auto = is_auto

    def cells(
        self,
        workload: Workload,
        laid_out: Mapping[float, Sequence[TimedCall]],
        model: Model,
        *,
        is_native: bool = False,
    ) -> list[WorkloadCell]:
        """Return what the calls of a workload come to on a model, laid out for each rate.

        Args:
            workload: Its sessions.
            laid_out: Its calls and their times, by calls a minute.
            model: A model of the catalog.
            is_native: True if they are made in Anthropic's API, of a model that speaks it.
        """
        reading = _Remembering(model, model.routes[0], self._vocabulary)
        return [
            self._cell(workload, calls, reading, rate, is_native=is_native)
            for rate, calls in laid_out.items()
        ]

    def _cell(
        self,
        workload: Workload,
        calls: Sequence[TimedCall],
        reading: PromptReader,
        rate: float,
        *,
        is_native: bool,
    ) -> WorkloadCell:
        day = START // _DAY_S * _DAY_S
        units = self._stake * STAKE_UNITS_PER_DOLLAR
        planning = PlannedVariant(reading, day, arranges=self._is_auto, names=False, stake=units)
        lines = list(recorded_calls(workload, calls, reading, is_native=is_native))
        run = ModelReplay(reading, (planning,), day=day)
        costs = [*_costs(run, lines)]
        sent, marked = sum_of(run.features()) or (VariantTotals(), VariantTotals())
        return WorkloadCell(
            how="replay",
            workload=workload.name,
            model=reading.public,
            rate=rate,
            pace=pace(calls),
            calls=sent.calls,
            left_out=len(calls) - sent.calls,
            direct=_side(sent),
            gateway=_side(marked),
            may_lose=may_lose(
                (
                    (
                        line.feature,
                        reading.read_prompt(line.body, at, is_native=line.is_native).tokens,
                    )
                    for at, line in lines
                ),
                route_target(reading.route, reading.public, day),
                self._stake,
            ),
            window_extra=dearest_window(costs),
        )


def _costs(
    run: ModelReplay, lines: Iterable[tuple[float, RecordedCall]]
) -> Iterator[tuple[float, float]]:
    """The dollars of each call that the route takes: sent directly, and as planned."""
    for now, line in lines:
        try:
            direct, planned = run.call(line, now)
        except OperatorError:
            continue
        yield (direct or 0) / 1e9, (planned or 0) / 1e9


def dearest_window(costs: Iterable[tuple[float, float]]) -> float | None:
    """Dollars by which the dearest many calls in a row cost more than the limit.

    Args:
        costs: Dollars of each call: sent directly, and by the gateway.
    """
    sums = [*accumulate((sent - LIMIT * direct for direct, sent in costs), initial=0.0)]
    return max(
        (end - start for start, end in zip(sums, sums[MANY_CALLS:], strict=False)), default=None
    )


class _Remembering(PromptReader):
    """Reads a body once; at another rate the same calls come again."""

    def __init__(self, model: Model, route: Route, vocabulary: Vocabulary) -> None:
        super().__init__(model, route, vocabulary)
        self._known: dict[bytes, CachedPrompt] = {}

    def read_prompt(self, body: bytes, now: float, *, is_native: bool = False) -> CachedPrompt:
        """The prompt that a body makes; it does not depend on the time."""
        if body not in self._known:
            self._known[body] = super().read_prompt(body, now, is_native=is_native)
        return self._known[body]


def may_lose(
    prompts: Iterable[tuple[str, int]], target: PlanningTarget, stake: float = STAKE
) -> float:
    """Dollars that features may cost more than sent directly.

    Args:
        prompts: Feature and tokens of each call.
        target: Where they go.
        stake: Dollars that each may lose; the surcharge of its longest prompt where that is more.
    """
    regime, rates = target.regime, target.rates
    surcharge = max(0.0, float(min(regime.writes.values(), default=1)) - 1.0)
    price = float(rates.input or 0) / STAKE_UNITS_PER_DOLLAR if rates is not None else 0.0
    longest: dict[str, int] = {}
    for feature, tokens in prompts:
        longest[feature] = max(tokens, longest.get(feature, 0))
    return sum(max(stake, tokens * surcharge * price) for tokens in longest.values())


def _side(row: VariantTotals) -> Side:
    return Side(
        dollars=(row.nanos or 0) / 1e9,
        prompt=row.input_tokens,
        read=row.cache_read_tokens,
        written=row.cache_write_tokens,
    )


def recorded_calls(
    workload: Workload, calls: Sequence[TimedCall], reading: PromptReader, *, is_native: bool
) -> Iterator[tuple[float, RecordedCall]]:
    """The calls that the route can be asked for, and when."""
    for call in calls:
        body = call.body(workload, reading.public, reading.route.regime)
        if is_native:
            try:
                body = prepare(chat_call(body), reading.route).body
            except CallerError:
                continue
        line = RecordedCall(
            at=call.at,
            conversation=call.session.name,
            key="replay",
            feature=call.session.feature,
            body=body,
            reply=orjson.dumps(call.turn.reply),
            is_native=is_native,
        )
        yield START + call.at, line
