# ruff: noqa: T201 - a script prints its result
"""Random traffic for replica routing: prefixes shared by all, by groups and by conversations.

Usage: python -m tests.bench.replica_random FIRST LAST
prints the seeds whose TTFT p90 is more than 5 % above least loaded's, and the means of all.
"""

import sys
from functools import cache
from random import Random
from statistics import mean
from typing import Final

from tests.bench.replica_policies import LeastLoaded
from tests.bench.replica_routing import ReplicaCell
from tests.bench.replica_simulation import ReplicaCall, SimulatedSession
from tests.bench.replica_traces import ReplicaWorkload, block_digest

_CALLS: Final = 400
_BLOCK: Final = 64
#: What the simulated replicas read and decode in a second, as `ReplicaRules` has it.
_PREFILL_TOKENS_PER_S: Final = 10_000
_TOKEN_S: Final = 0.015
_SLOTS: Final = 64


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
        work=lambda **_: work,
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
        blocks += [block_digest(f"own {number}/{turn}", at) for at in range(grown)]
        prompts.append(tuple(blocks))
    return prompts


@cache
def _shared_blocks(owner: str, count: int) -> tuple[bytes, ...]:
    return tuple(block_digest(owner, number) for number in range(count))


def main() -> None:
    """Print the table of these seeds."""
    first, last = map(int, sys.argv[1:3])
    ratios, hits = [], []
    print("| seed | least loaded: p90 | thriftgate | ratio |\n|---|--:|--:|--:|")
    for seed in range(first, last + 1):
        cell, work = random_cell(seed)
        ours, least = cell.play(work, cell.router(work)), cell.play(work, LeastLoaded())
        ratios.append(ours.p90 / least.p90)
        hits.append(ours.hit_rate - least.hit_rate)
        if ratios[-1] > 1.05:
            print(f"| {seed} | {least.p90:.3f} | {ours.p90:.3f} | {ratios[-1]:.3f} |", flush=True)
    print(f"| all {len(ratios)}, mean | | | {mean(ratios):.3f} |")
    print(f"\nHit rate: {mean(hits):+.1%} in the mean, {min(hits):+.1%} at the least.")


if __name__ == "__main__":
    main()
