# ruff: noqa: T201 - a script prints its result
"""The field's example: one feature's traffic built in several ways, through gateway and lab.

A 12,000-token handbook, a user's facts, passages found for each question, and a time: the same
calls, variable-first, stable-first, sharing prefixes, and variable-first again with the gateway
planning, on the day after it saw the feature for the first time. Time is simulated, calls follow
each other one by one; hit rates and costs are the ledger's.
Usage: python -m tests.bench.prefix [--calls 600] [--regime NAME] [--way NAME]
"""

import argparse
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import asdict

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.bench.prefix_traffic import TimedQuestion, traffic
from tests.bench.prefix_ways import WAYS, Json, Way, variable_first, ways
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

#: Words of an answer.
_WORDS = 110
#: Variable-first through a gateway that plans (mode auto).
PLANNED = "planned"
#: The number of the first user of the day before.
_OTHERS = 100_000


@dataclass(frozen=True, kw_only=True)
class LedgerFigures:
    """The ledger's figures of one way on one regime; dollars are of 1,000 calls."""

    regime: str
    way: str
    calls: int
    usage: Usage
    dollars: float

    @property
    def hit_rate(self) -> float:
        """Cache-read tokens ÷ input tokens."""
        return self.usage.cache_read / self.usage.prompt_tokens


def rows(
    harness: PrefixHarness,
    calls: Sequence[TimedQuestion],
    regimes: Iterable[str] = MODELS,
    chosen: Iterable[str] = (*WAYS, PLANNED),
) -> Iterator[LedgerFigures]:
    """One row for each chosen way on each regime, each from empty caches."""
    for regime in regimes:
        for way in chosen:
            if way in ways(regime):
                yield play_calls(harness, calls, regime, way)
            elif way == PLANNED:
                harness.plan(f"{regime}/{way}", PlanningMode.AUTO)
                learn_from_others(harness, len(calls), regime)
                yield play_calls(harness, calls, regime, way)


def learn_from_others(harness: PrefixHarness, calls: int, regime: str) -> None:
    """Let the gateway see so many calls of other users, the day before."""
    harness.turn()
    before = traffic(calls, seed="0", first=_OTHERS)
    play(harness, before, regime, f"{regime}/{PLANNED}", variable_first)


def play_calls(
    harness: PrefixHarness, calls: Sequence[TimedQuestion], regime: str, way: str
) -> LedgerFigures:
    """The totals of the calls built in this way."""
    feature = f"{regime}/{way}"
    before = harness.spend_by_feature().get(feature)
    harness.turn()
    play(harness, calls, regime, feature, WAYS.get(way, variable_first))
    spent = harness.spend_by_feature()[feature]
    assert spent.cost_nanos is not None
    assert (spent.errors, spent.estimated) == (0, 0)
    usage, nanos = spent.usage, spent.cost_nanos
    if before is not None:
        usage, nanos = _less(usage, before.usage), nanos - (before.cost_nanos or 0)
    dollars = nanos / 1e9 / len(calls) * 1000
    return LedgerFigures(regime=regime, way=way, calls=len(calls), usage=usage, dollars=dollars)


def _less(usage: Usage, before: Usage) -> Usage:
    """The usage since."""
    then = asdict(before)
    return Usage(**{bucket: tokens - then[bucket] for bucket, tokens in asdict(usage).items()})


def play(
    harness: PrefixHarness, calls: Iterable[TimedQuestion], regime: str, feature: str, way: Way
) -> None:
    """Make the calls in order; each conversation goes on with the answers it got."""
    histories: dict[int, list[Json]] = {}
    for call in calls:
        history = histories.setdefault(call.user.number, [])
        body = {"model": MODELS[regime], **way(call, history, regime)}
        answer = harness.ask(body, at=call.at, feature=feature, words=_WORDS)
        content = answer["choices"][0]["message"]["content"]
        history += [
            {"role": "user", "content": call.question},
            {"role": "assistant", "content": content},
        ]


def main() -> None:
    """Print the table as markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--regime", choices=MODELS)
    parser.add_argument("--way", choices=(*WAYS, PLANNED))
    options = parser.parse_args()
    regimes = [options.regime] if options.regime else list(MODELS)
    chosen = [options.way] if options.way else [*WAYS, PLANNED]
    calls = traffic(options.calls)
    users = len({call.user.number for call in calls})
    print(f"{len(calls)} calls of {users} users in {calls[-1].at / 60:.0f} simulated minutes\n")
    print("| regime | model | way | hit rate | input | read | written | $ per 1,000 |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, prefix_harness(Path(folder)) as harness:
        for row in rows(harness, calls, regimes, chosen):
            used = row.usage
            cells = (
                row.regime,
                MODELS[row.regime],
                row.way,
                f"{row.hit_rate:.1%}",
                *(
                    f"{tokens:,}"
                    for tokens in (used.prompt_tokens, used.cache_read, used.cache_write_tokens)
                ),
                f"{row.dollars:.2f}",
            )
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
