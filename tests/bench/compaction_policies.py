# ruff: noqa: T201 - a script prints its result
"""Costs of recorded sessions by the rule that compacts their history: the gate and simpler ones.

never: Sent unmodified.
always: Whatever lies behind the last three steps is compacted, at every call.
window: Compacted at 80 % of a window of 200,000 tokens, as agents' own compaction does.
gate: As ``compaction.cost_model`` decides, from the prefix alone.

Each call is served by the gateway's model of the route's cache, at its recorded time, and priced by
the catalog. What is put in place of a part is a share of it, by what the set is of; a session of
which nothing was ever compacted costs the same under all. An early end is what a gate that sees
only the prefix must fear: with ``--ends`` each session is also played as if it had ended after 1/8,
2/8 … of its calls. ``--trim`` is the share of what calls add that lossless shortening takes away.

Usage: python -m tests.bench.compaction_policies [--data DIR] [--route ID …] [--set NAME …]
    [--ends] [--trim SHARE]
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final

from compaction import cost_model
from compaction.policy import CompactionPolicy, RelativePrices
from proxy.caches.port import CachedPrompt, Served, TokenBlock, Ttl
from proxy.caches.regimes import build_cache
from proxy.calls.eligibility.route_target import route_target as planned
from proxy.catalog.entries import Route
from proxy.catalog.load import load
from proxy.services.compaction.policies import relative_prices
from slo.price import Tariff, call_cost
from slo.usage import Usage
from tests.bench.compaction_sessions import SETS, PromptSession, SessionCall

ROUTES: Final = (
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "claude-sonnet-4-5",
    "gpt-5.6-terra",
    "gpt-5.5",
    "gpt-4.1",
    "gemini-4-argon",
    "deepseek-v4-pro",
)
POLICIES: Final = ("never", "always", "window", "gate")
DATA: Final = Path(__file__).parents[3] / "shared/data"

#: What costs more than another by more than luck.
_MORE: Final = 1.0005
#: Steps that stay unmodified, and tokens or the part of the prompt that stay at least.
_STEPS: Final = 3
_TAIL: Final = 8_000
_TAIL_SHARE: Final = 0.25
#: Tokens of a message within a first prompt that was long already; and those around a segment.
_MESSAGE: Final = 2_000
_FRAME: Final = 60
_WINDOW: Final = 160_000  # 80 % of 200,000
#: Tokens of long sessions that the caches are shown as one: eight times as fast, and the blocks of
#: a regime eight times as long. From how long a last prompt on.
_UNIT: Final = 8
_LONG: Final = 50_000

Span = tuple[int, int]
CompactionRule = Callable[["State", SessionCall], bool]


@dataclass
class State:
    """A session as it is sent so far: ids of the caller's tokens, and of segments in their place.

    Attributes:
        session: What is played.
        spans: Ids of the segments, each made anew.
        cut: The caller's tokens before it are compacted.
        calls: Calls so far.
        last: The call of the last compaction; 0 for none.
        last_prompt: Tokens of the caller's prompt then.
        shorter: Tokens by which the prompt is shorter than the caller's.
        bank: What that has saved, less what it cost, as the gate counts.
    """

    session: PromptSession
    spans: list[Span] = field(default_factory=list)
    cut: int = 0
    calls: int = 0
    last: int = 0
    last_prompt: int = 0
    shorter: int = 0
    bank: float = 0.0

    def next_cut(self, call: SessionCall) -> int:
        """Up to where the next compaction reaches; never back."""
        before = self.session.calls[max(self.calls - 1 - _STEPS, 0)].prompt
        most = min(before, call.prompt - int(min(_TAIL, _TAIL_SHARE * call.prompt)))
        places = [earlier.prompt for earlier in self.session.calls[: self.calls]]
        place = max((at for at in places if at <= most), default=0)
        first = places[0]
        if most < first:
            place = self.session.fixed + (most - self.session.fixed) // _MESSAGE * _MESSAGE
        return max(place, self.cut)

    def cost_inputs(self, call: SessionCall) -> cost_model.CostInputs:
        """The session's state, as the gate is told."""
        cut = self.next_cut(call)
        first = self.session.calls[0].prompt
        region = cut - self.cut
        since = self.calls - self.last
        return cost_model.CostInputs(
            calls=self.calls,
            calls_since=since,
            fixed=self.session.fixed,
            earlier_segments=sum(end - start for start, end in self.spans),
            region=region,
            segment=self.segment(region),
            tail=call.prompt - cut,
            fresh=call.prompt - self.before(),
            growth=(call.prompt - (self.last_prompt or first)) / max(since - (not self.last), 1),
            bank=self.bank,
        )

    def before(self) -> int:
        """The caller's tokens that the call before had sent."""
        return self.session.calls[self.calls - 2].prompt if self.calls > 1 else 0

    def segment(self, region: int) -> int:
        """Tokens of what stands for so many."""
        return int(self.session.share * region) + _FRAME

    def compact(self, call: SessionCall) -> None:
        """Put a segment in the place of what lies before the next cut."""
        cut = self.next_cut(call)
        length = self.segment(cut - self.cut)
        self.shorter += cut - self.cut - length
        start = (1 << 28) + (self.spans[-1][1] & ((1 << 28) - 1) if self.spans else 0)
        self.spans.append((start, start + length))
        self.cut, self.last, self.last_prompt = cut, self.calls, call.prompt

    def blocks(self, call: SessionCall) -> Iterator[Span]:
        """The prompt that is sent, a span of ids for each block: fixed, segments, tail."""
        fixed = self.session.fixed
        yield 0, fixed
        yield from self.spans
        ends = sorted({earlier.prompt for earlier in self.session.calls[: self.calls]})
        edges = [self.cut, *(end for end in ends if end > self.cut)]
        yield from (pair for pair in pairwise(edges) if pair[0] < pair[1])


def policies(prices: RelativePrices) -> Mapping[str, CompactionRule]:
    """Each policy: True if it compacts now; the gate knows no window: want of room has no price."""
    policy = CompactionPolicy(prices=prices)

    def decide(state: State, call: SessionCall) -> bool:
        inputs = state.cost_inputs(call)
        is_due = cost_model.decide_compaction(policy, inputs).is_due
        state.bank -= cost_model.rewrite_cost(prices, inputs) if is_due else 0.0
        trimmed = state.session.calls[state.calls - 2].trimmed if state.calls > 1 else 0
        shorter = state.shorter + (inputs.gain if is_due else 0)
        state.bank += cost_model.call_savings(prices, shorter + trimmed, call.trimmed - trimmed)
        return is_due

    return {
        "never": lambda state, call: False,
        "always": lambda state, call: state.cost_inputs(call).gain > 0 and state.calls > _STEPS,
        "window": lambda state, call: (
            call.prompt - state.shorter > _WINDOW and state.cost_inputs(call).gain > 0
        ),
        "gate": decide,
    }


@dataclass(frozen=True, kw_only=True)
class SessionResult:
    """Cost at list prices, compactions and tokens of one session.

    Attributes:
        calls: Cost of each recorded call.
        first: The one of the first compaction; -1 for one before; None for none.
    """

    nanos: int
    compactions: int
    tokens: int = 0
    calls: tuple[int, ...] = ()
    first: int | None = None


@dataclass(frozen=True)
class PricedRoute:
    """A route, and what the gate is told of it."""

    route: Route
    tariff: Tariff
    at: float
    prices: RelativePrices
    ttl: Ttl | None


#: A self-hosted engine, added to the catalog: its cache has no price for writing.
_OWN_ENGINE: Final = """
[upstreams.own]
kind = "openai"
provider = "vllm"
base_url = "http://127.0.0.1:9/v1"

[[models]]
id = "vllm-own"
upstream = "own"
regime = "block-chain"
block = 16
window = 1_000_000
can = ["tools"]
price = { input = "1", cache_read = "0.1", output = "4" }
"""


def priced_route(route_id: str, now: datetime) -> PricedRoute:
    """The route of the shipped catalog, at today's prices."""
    text = (files("proxy") / "catalog/models.toml").read_text(encoding="utf8")
    model = load(text + _OWN_ENGINE, None).find(route_id)
    assert model is not None, route_id
    route = model.routes[0]
    assert route.tariff is not None, route_id
    timestamp = now.timestamp()
    there = planned(route, route.model or "", timestamp)
    paid = there.regime.writes
    ttl: Ttl | None = "5m" if "5m" in paid else "30m" if "30m" in paid else None
    return PricedRoute(route, route.tariff, timestamp, relative_prices(there), ttl)


def play(session: PromptSession, here: PricedRoute, rule: CompactionRule) -> SessionResult:
    """The cost of the session on the route if it is compacted so."""
    route = here.route
    unit = _UNIT if session.calls[-1].prompt > _LONG else 1
    least = None if route.min_cache_tokens is None else route.min_cache_tokens // unit
    held = build_cache(route.regime, provider=route.upstream.provider, min_tokens=least)
    state = State(session, cut=session.fixed)
    costs, made, first = list[int](), 0, None
    for call in session.calls:
        state.calls += 1
        if rule(state, call):
            state.compact(call)
            made += 1
            first = (-1 if call.unseen else len(costs)) if first is None else first
        if call.unseen:
            continue
        prompt = _prompt(list(state.blocks(call)), len(state.spans), here.ttl, unit)
        served = held.serve(prompt, call.at)
        held.begin_answer(prompt, call.at + call.took / 2)
        held.finish_answer(prompt, (), call.at + call.took)
        costs.append(list_cost(served, call.output, here, unit))
    return SessionResult(nanos=sum(costs), compactions=made, calls=tuple(costs), first=first)


def _prompt(spans: Sequence[Span], segments: int, ttl: Ttl | None, unit: int) -> CachedPrompt:
    """The prompt as the cache sees it, marked behind system, segments and at the end."""
    marks = {0, segments, len(spans) - 2, len(spans) - 1}
    return CachedPrompt(
        blocks=tuple(
            TokenBlock(
                role="system" if index == 0 else "user",
                tokens=tuple(range(span[0] // unit, span[1] // unit)),
                message=index,
                mark=ttl if index in marks and span[0] + unit <= span[1] else None,
            )
            for index, span in enumerate(spans)
        )
    )


def list_cost(served: Served, output: int, here: PricedRoute, unit: int = 1) -> int:
    """The cost of a call at list prices."""
    written = {f"write_{ttl}": tokens * unit for ttl, tokens in served.written.items()}
    fresh, read = served.fresh * unit, served.read * unit
    usage = Usage(input=fresh, cache_read=read, output=output, **written)
    cost = call_cost(usage, here.tariff, here.at)
    assert cost is not None
    return cost.list_nanos


@dataclass
class SetResult:
    """The results of one set on one route.

    Attributes:
        nanos: Cost by policy.
        sessions: How many.
        compacted: Of these, the ones a policy compacted.
        dearer: Of these, the ones that cost more than never compacted.
        worst: The highest cost, of never's, among those compacted.
        most_nanos: The most that any session cost more than never.
        costlier: Sessions that cost more than never compacted by 0.05 %, compacted or only trimmed.
    """

    nanos: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    compacted: dict[str, int] = field(default_factory=dict)
    dearer: dict[str, int] = field(default_factory=dict)
    worst: dict[str, float] = field(default_factory=dict)
    costlier: dict[str, int] = field(default_factory=dict)
    most_nanos: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, played: SessionResult, never: SessionResult) -> None:
        """Count a session."""
        self.nanos[name] = self.nanos.get(name, 0) + played.nanos
        self.tokens[name] = self.tokens.get(name, 0) + played.tokens
        self.compacted[name] = self.compacted.get(name, 0) + (played.compactions > 0)
        dearer = played.compactions > 0 and played.nanos > never.nanos
        self.dearer[name] = self.dearer.get(name, 0) + dearer
        costlier = played.nanos > _MORE * never.nanos
        self.costlier[name] = self.costlier.get(name, 0) + costlier
        more = played.nanos - never.nanos
        self.most_nanos[name] = max(self.most_nanos.get(name, 0), more)
        if played.compactions:
            ratio = played.nanos / never.nanos
            self.worst[name] = max(self.worst.get(name, 0.0), ratio)


def row(sessions: Iterable[PromptSession], here: PricedRoute, trim: float = 0.0) -> SetResult:
    """All policies over the sessions; for the gate, results were shortened when they came."""
    decisions = policies(here.prices)
    result = SetResult()
    for session in sessions:
        result.sessions += 1
        never = play(session, here, decisions["never"])
        result.add("never", never, never)
        for name in POLICIES[1:]:
            came = session.trim(trim) if name == "gate" else session
            result.add(name, play(came, here, decisions[name]), never)
    return result


def ended_early(sessions: Iterable[PromptSession]) -> Iterator[PromptSession]:
    """Each session as if it had ended after each eighth of its calls."""
    for session in sessions:
        calls = len(session.calls) - session.calls_before_recording
        counts = {-(-calls * n // 8) for n in range(1, 9)}
        yield from (session.until(count) for count in sorted(counts))


def main() -> None:
    """Print a line for each set on each route."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--route", nargs="*", default=ROUTES)
    parser.add_argument("--set", nargs="*", default=tuple(SETS))
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--trim", type=float, default=0.0)
    given = parser.parse_args()
    if unknown := set(given.set) - set(SETS):
        parser.error(f"no such set: {', '.join(sorted(unknown))}; there are: {', '.join(SETS)}")
    now = datetime(2026, 11, 22, tzinfo=UTC)
    print("dollars by policy; of sessions compacted: dearer than never, and the dearest ÷ never")
    heads = " ".join(f"{name:>27}" for name in POLICIES[1:])
    print(f"{'set':12} {'route':18} {'sessions':>8} {'never':>9} {heads}")
    for name in given.set:
        sessions = list(SETS[name](given.data))
        played = list(ended_early(sessions)) if given.ends else sessions
        for route in given.route:
            result = row(played, priced_route(route, now), given.trim)
            print(f"{name:12} {route:18} {_line(result)}", flush=True)


def _line(result: SetResult) -> str:
    cells = " ".join(
        f"{result.nanos[name] / 1e9:9.3f} {result.compacted[name]:5d}/{result.dearer[name]:<4d}"
        f"{result.worst.get(name, 0.0):6.2f}"
        for name in POLICIES[1:]
    )
    return f"{result.sessions:8d} {result.nanos['never'] / 1e9:9.3f} {cells}"


if __name__ == "__main__":
    main()
