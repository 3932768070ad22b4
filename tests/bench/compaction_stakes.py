# ruff: noqa: T201 - a script prints its result
"""Costs of recorded sessions by the margin of their compactions and the stake of their features.

A feature is the sessions of a set on a route, one after the other. With a stake the first
compaction of a session is made where the feature's balance can lose it, as in
``proxy.services.compaction.stakes``; else the session keeps to the strict margin. Lengths alone, as
in ``compaction_policies``; a window compacts whenever the prompt passes 80 % of it.

Printed are the mean saving of the routes, sessions compacted and dearer than never, the dearest in
cents, features that end dearer, and the lowest balance of any, before it was earned back, in cents.

Usage: python -m tests.bench.compaction_stakes [--data DIR] [--route ID …] [--set NAME …]
    [--safety N …] [--stake CENTS …] [--ends]
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from compaction import cost_model
from tests.bench.compaction_policies import (
    DATA,
    ROUTES,
    CompactionRule,
    PricedRoute,
    SessionResult,
    State,
    ended_early,
    play,
    policies,
    priced_route,
)
from tests.bench.compaction_sessions import SETS, PromptSession, SessionCall

_CENT: Final = 10_000_000
#: A self-hosted vLLM, whose rows stand apart: it is no route of the shipped catalog.
_OWN_ENGINE: Final = "vllm-own"
_WINDOWS: Final = {"64k window": 51_200, "200k window": 160_000}
_SAFETIES: Final = (30.0, 20.0, 10.0, 5.0, 3.0)
#: Never, by a rule, by the strict margin.
Ways = tuple[SessionResult, SessionResult, SessionResult]


@dataclass
class RuleResult:
    """The sums of a rule over all features; money in nano-dollars."""

    compacted: int = 0
    dearer: int = 0
    dearest: int = 0
    dearer_features: int = 0
    features: int = 0
    lowest: int = 0

    def add_feature(self, sessions: Sequence[Ways], stake: int | None) -> int:
        """Count a feature; returns its cost."""
        balance = cost = 0
        for never, bold, strict in sessions:
            by = bold if stake is None or allows(never, bold, balance, stake) else strict
            for before, after in zip(never.calls, by.calls, strict=True):
                balance += before - after
                self.lowest = min(self.lowest, balance)
            cost += by.nanos
            more = by.nanos - never.nanos if by.compactions else 0
            self.compacted += by.compactions > 0
            self.dearer += more > 0
            self.dearest = max(self.dearest, more)
        self.features += 1
        self.dearer_features += balance < 0
        return cost


def allows(never: SessionResult, bold: SessionResult, balance: int, stake: int) -> bool:
    """True if a feature may lose the first compaction of a session."""
    if bold.first is None or bold.first < 0:
        return True
    before = sum(never.calls[: bold.first]) - sum(bold.calls[: bold.first])
    loss = max(bold.calls[bold.first] - never.calls[bold.first], 0)
    return balance + before - loss >= -max(stake, loss)


def _at_window(most: int, state: State, call: SessionCall) -> bool:
    return call.prompt - state.shorter > most and state.cost_inputs(call).gain > 0


def _play_margin(session: PromptSession, here: PricedRoute, safety: float) -> SessionResult:
    cost_model.SAFETY_FACTOR = safety  # type: ignore[misc]
    return play(session, here, policies(here.prices)["gate"])


def main() -> None:
    """Print a line for each rule."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--route", nargs="*", default=ROUTES)
    parser.add_argument("--set", nargs="*", default=tuple(SETS))
    parser.add_argument("--safety", nargs="*", type=float, default=_SAFETIES)
    parser.add_argument("--stake", nargs="*", type=float, default=(1.0,))
    parser.add_argument("--ends", action="store_true")
    given = parser.parse_args()
    features = {name: list(SETS[name](given.data)) for name in given.set}
    if given.ends:
        features = {name: list(ended_early(sessions)) for name, sessions in features.items()}
    print("| rule | saved | compacted, dearer | dearest | features dearer | lowest balance |")
    print("|---|--:|--:|--:|--:|--:|")
    _print_rules(given, features, given.route)
    if given.route is ROUTES:
        _print_rules(given, features, [_OWN_ENGINE], ", vLLM of one's own")


def _print_rules(
    given: argparse.Namespace,
    features: Mapping[str, Sequence[PromptSession]],
    routes: Sequence[str],
    suffix: str = "",
) -> None:
    """Print a line for each rule on some routes; a suffix of the rule's name says which."""
    now = datetime(2026, 11, 22, tzinfo=UTC)
    ways = [priced_route(route, now) for route in routes]
    base = {
        (here.route.name, name): [
            (
                play(session, here, policies(here.prices)["never"]),
                _play_margin(session, here, cost_model.STRICT_SAFETY_FACTOR),
            )
            for session in sessions
        ]
        for here in ways
        for name, sessions in features.items()
    }
    rules: dict[str, CompactionRule | float] = {
        name: partial(_at_window, most) for name, most in _WINDOWS.items()
    }
    for name, rule in {**rules, **{f"{value:g} times": value for value in given.safety}}.items():
        played = {
            (here.route.name, each): [
                _play_margin(session, here, rule)
                if isinstance(rule, float)
                else play(session, here, rule)
                for session in sessions
            ]
            for here in ways
            for each, sessions in features.items()
        }
        stakes = given.stake if isinstance(rule, float) else ()
        print(f"| {name}{suffix} | {_line(base, played, None)} |", flush=True)
        for cents in stakes:
            line = _line(base, played, round(cents * _CENT))
            print(f"| {name}, stake of {cents:g} cents{suffix} | {line} |", flush=True)


def _line(
    base: Mapping[tuple[str, str], Sequence[tuple[SessionResult, SessionResult]]],
    played: Mapping[tuple[str, str], Sequence[SessionResult]],
    stake: int | None,
) -> str:
    result, costs = RuleResult(), dict[str, list[int]]()
    for key, pairs in base.items():
        sessions = [(pair[0], bold, pair[1]) for pair, bold in zip(pairs, played[key], strict=True)]
        cost = result.add_feature(sessions, stake)
        sums = costs.setdefault(key[0], [0, 0])
        sums[0] += cost
        sums[1] += sum(never.nanos for never, _ in pairs)
    shares = [1 - cost / never for cost, never in costs.values()]
    return (
        f"{100 * sum(shares) / len(shares):.1f} % | {result.compacted}, {result.dearer}"
        f" | {result.dearest / _CENT:.1f} | {result.dearer_features} of {result.features}"
        f" | {result.lowest / _CENT:.1f}"
    )


if __name__ == "__main__":
    main()
