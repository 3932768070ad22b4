# ruff: noqa: T201 - a script prints its result
"""Random traffic for replica routing: prefixes shared by all, by groups and by conversations.

Usage: python -m tests.bench.replica_random FIRST LAST [GATEWAYS]
prints the seeds whose TTFT p90 is more than 5 % above least loaded's, and the means of all.

Both choose among equal replicas, and one choice may make a queue in which a tenth of all calls
wait. So a seed is judged by the mean p90 of several draws; single draws are counted beside it, and
least loaded against another draw of its own.
"""

import sys
from collections.abc import Sequence
from functools import cache, partial
from random import Random
from statistics import mean
from typing import Final, NamedTuple

from tests.bench.replica_policies import GatewayRouter, LeastLoaded
from tests.bench.replica_routing import ReplicaCell
from tests.bench.replica_simulation import ReplicaCall, SimulatedSession, SimulationResult
from tests.bench.replica_traces import ReplicaWorkload, block_digest

_CALLS: Final = 400
_BLOCK: Final = 64
#: What the simulated replicas read and decode in a second, as `ReplicaRules` has it.
_PREFILL_TOKENS_PER_S: Final = 10_000
_TOKEN_S: Final = 0.015
_SLOTS: Final = 64
#: Draws of the choices among equal replicas.
_DRAWS: Final = 5
#: What TTFT p90 may be of least loaded's.
MAX_RATIO: Final = 1.05


def random_cell(seed: int) -> tuple[ReplicaCell, ReplicaWorkload]:
    """Replicas and traffic for them, between a tenth of what they can read and all of it."""
    random = Random(seed)  # noqa: S311 - the same traffic each time
    common, groups = random.choice((0, 0, 16, 64, 200)), random.choice((1, 3, 12, 60))
    grouped, own = random.choice((0, 8, 60)), random.choice((4, 12, 40, 120))
    turns = random.choice((1, 1, 2, 6, 15))
    output, pause = random.choice((20, 150, 400)), random.choice((0.2, 2.0, 10.0))
    replicas = random.choice((2, 3, 4, 8))
    prompts = [
        _prompts(random, number, (common, grouped, own), turns, groups)
        for number in range(_CALLS // turns)
    ]
    calls = [
        tuple(
            ReplicaCall(
                blocks=prompt,
                tokens=_BLOCK * len(prompt),
                output=max(1, int(output * random.uniform(0.5, 1.5))),
                pause=pause * random.uniform(0.5, 1.5) if turn else 0.0,
                conversation=f"{number}" if turns > 1 else "",
            )
            for turn, prompt in enumerate(session)
        )
        for number, session in enumerate(prompts)
    ]
    whole = [call for session in calls for call in session]
    least_s = sum(
        _BLOCK * own / _PREFILL_TOKENS_PER_S + call.output * _TOKEN_S / _SLOTS for call in whole
    )
    span = least_s / replicas / random.uniform(0.1, 1.0)
    sessions = tuple(
        SimulatedSession(start=random.uniform(0, span), calls=session) for session in calls
    )
    cell = ReplicaCell(
        work=lambda: work,
        replicas=replicas,
        cache_tokens=random.choice((100_000, 500_000)),
        rate=1.0,
    )
    work = ReplicaWorkload(name=f"random {seed}", block=_BLOCK, sessions=sessions)
    return cell, work


def _prompts(
    random: Random, number: int, parts: tuple[int, int, int], turns: int, groups: int
) -> list[tuple[bytes, ...]]:
    """The prompts of a session, each of which goes on where the one before ended."""
    common, grouped, own = parts
    group = f"group {random.randrange(groups)}"
    blocks = [*_shared_blocks("common", common), *_shared_blocks(group, grouped)]
    prompts = []
    for turn in range(turns):
        grown = max(1, int(own * random.uniform(0.3, 1.7)))
        blocks += [block_digest(f"own {number}/{turn}", index) for index in range(grown)]
        prompts.append(tuple(blocks))
    return prompts


@cache
def _shared_blocks(owner: str, count: int) -> tuple[bytes, ...]:
    return tuple(block_digest(owner, number) for number in range(count))


class RandomOutcome(NamedTuple):
    """The gateway's router and least-loaded placement on the same traffic, in each draw."""

    ours: list[SimulationResult]
    least: list[SimulationResult]

    @property
    def ratio(self) -> float:
        """The mean TTFT p90 over least loaded's."""
        return mean(outcome.p90 for outcome in self.ours) / mean(
            outcome.p90 for outcome in self.least
        )

    @property
    def hits(self) -> float:
        """The mean hit rate above least loaded's."""
        return mean(outcome.hit_rate for outcome in self.ours) - mean(
            outcome.hit_rate for outcome in self.least
        )


def play_draws(seed: int, draws: int = _DRAWS, gateways: int = 1) -> RandomOutcome:
    """Play the traffic of a seed with several draws of the choices among equal replicas."""
    cell, work = random_cell(seed)
    room = cell.cache_tokens
    policy = partial(GatewayRouter, cache_tokens=room, block=work.block, gateways=gateways)
    return RandomOutcome(
        [cell.play(work, policy(draw=draw)) for draw in range(draws)],
        [cell.play(work, LeastLoaded(draw)) for draw in range(draws)],
    )


def _count_above(ours: Sequence[SimulationResult], least: Sequence[SimulationResult]) -> int:
    """Draws of the first whose p90 is more above that of the second than it may be."""
    return sum(one.p90 > MAX_RATIO * two.p90 for one, two in zip(ours, least, strict=True))


def main() -> None:
    """Print the table of these seeds."""
    first, last, *more = map(int, sys.argv[1:])
    gateways = more[0] if more else 1
    outcomes, above, against_itself = [], 0, 0
    print("| seed | least loaded: p90 | thriftgate | ratio |\n|---|--:|--:|--:|")
    for seed in range(first, last + 1):
        outcome = play_draws(seed, gateways=gateways)
        ours, least = outcome
        outcomes.append(outcome)
        above += _count_above(ours, least)
        against_itself += _count_above(least, [*least[1:], least[0]])
        if outcome.ratio > MAX_RATIO:
            p90s = (mean(each.p90 for each in drawn) for drawn in (least, ours))
            cells = [*(f"{p90:.3f}" for p90 in p90s), f"{outcome.ratio:.3f}"]
            print(f"| {seed} | {' | '.join(cells)} |", flush=True)
    hits = [outcome.hits for outcome in outcomes]
    print(f"| all {len(outcomes)}, mean | | | {mean(each.ratio for each in outcomes):.3f} |")
    print(f"\nHit rate: {mean(hits):+.1%} in the mean, {min(hits):+.1%} at the least.")
    draws = _DRAWS * len(outcomes)
    print(f"Single draws above: {above} of {draws}; of least loaded, {against_itself} of {draws}.")


if __name__ == "__main__":
    main()
