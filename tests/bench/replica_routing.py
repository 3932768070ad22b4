# ruff: noqa: T201 - a script prints its result
"""Replica routing on recorded and made-up traffic, beside usual policies.

Replicas are simulated; the traces are not part of this repository, and their rows are left out,
with a reason, where they are absent.
Usage: python -m tests.bench.replica_routing [--part table|faults|time] [--quick] [--rows N,N]
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from random import Random
from statistics import median
from time import thread_time_ns
from typing import Final

from proxy.engines.routing.call_prompt import call_prompt
from proxy.engines.routing.decision import RoutingRequest
from proxy.engines.routing.policy import RoutingPolicy
from proxy.engines.routing.prompt_chain import chain_root, prompt_chain
from proxy.engines.routing.replica import ReplicaCandidate
from proxy.engines.routing.router import ReplicaRouter
from tests.bench import replica_traces as traces
from tests.bench.replica_policies import (
    GatewayRouter,
    LeastLoaded,
    RandomReplica,
    RoundRobin,
)
from tests.bench.replica_simulation import (
    BlockCache,
    PlacementPolicy,
    ReplicaRules,
    Simulation,
    SimulationResult,
)

_ROUNDS: Final = 200
_CHAT: Final = "chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCell:
    """Traffic on so many replicas with so large caches."""

    work: Callable[..., traces.ReplicaWorkload]
    replicas: int
    cache_tokens: int
    rate: float

    def workload(self) -> traces.ReplicaWorkload:
        """Its calls."""
        return self.work().faster(self.rate)

    def play(
        self,
        work: traces.ReplicaWorkload,
        policy: PlacementPolicy,
        *,
        is_shared: bool = False,
        prepare: Callable[[Simulation], None] | None = None,
    ) -> SimulationResult:
        """All of it under one policy."""
        rules = ReplicaRules(cache_tokens=self.cache_tokens)
        simulation = Simulation(policy, self.replicas, rules, work.block)
        if is_shared:
            simulation.share_cache()
        if prepare is not None:
            prepare(simulation)
        return simulation.play(work.sessions)

    def router(
        self, work: traces.ReplicaWorkload, policy: RoutingPolicy | None = None
    ) -> GatewayRouter:
        """The gateway's router for it."""
        rules = policy or RoutingPolicy()
        return GatewayRouter(rules, cache_tokens=self.cache_tokens, block=work.block)


_LATER: Final = partial(traces.mooncake, 6_000)
#: The numbers of the policy were chosen on these.
TUNED: Final = (
    ReplicaCell(work=traces.mooncake, replicas=8, cache_tokens=1_000_000, rate=1.0),
    ReplicaCell(work=traces.mooncake, replicas=8, cache_tokens=500_000, rate=1.8),
    ReplicaCell(work=_LATER, replicas=16, cache_tokens=500_000, rate=1.0),
    ReplicaCell(work=partial(traces.claude_code, 1), replicas=4, cache_tokens=500_000, rate=2.0),
    ReplicaCell(work=traces.documents, replicas=8, cache_tokens=500_000, rate=1.0),
)
UNSEEN: Final = (
    ReplicaCell(work=_LATER, replicas=4, cache_tokens=1_000_000, rate=0.4),
    ReplicaCell(work=_LATER, replicas=4, cache_tokens=4_000_000, rate=0.7),
    ReplicaCell(work=_LATER, replicas=8, cache_tokens=250_000, rate=1.2),
    ReplicaCell(work=_LATER, replicas=16, cache_tokens=2_000_000, rate=4.0),
    ReplicaCell(work=_LATER, replicas=16, cache_tokens=1_000_000, rate=0.5),
    ReplicaCell(work=partial(traces.claude_code, 1), replicas=4, cache_tokens=1_000_000, rate=4.0),
    ReplicaCell(work=partial(traces.claude_code, 1), replicas=8, cache_tokens=500_000, rate=4.0),
    ReplicaCell(work=partial(traces.claude_code, 2), replicas=16, cache_tokens=500_000, rate=8.0),
    ReplicaCell(work=partial(traces.claude_code, 2), replicas=8, cache_tokens=1_000_000, rate=8.0),
    ReplicaCell(work=traces.documents, replicas=16, cache_tokens=250_000, rate=4.0),
    ReplicaCell(work=traces.tenants, replicas=8, cache_tokens=250_000, rate=1.0),
    ReplicaCell(work=traces.tenants, replicas=4, cache_tokens=500_000, rate=1.5),
    ReplicaCell(work=traces.common_prompt, replicas=8, cache_tokens=500_000, rate=1.0),
    ReplicaCell(
        work=partial(traces.common_prompt, 4, 20.0), replicas=8, cache_tokens=500_000, rate=1.0
    ),
    ReplicaCell(work=traces.agents, replicas=8, cache_tokens=500_000, rate=1.0),
    ReplicaCell(work=traces.agents, replicas=4, cache_tokens=500_000, rate=0.5),
    ReplicaCell(work=traces.single_shots, replicas=8, cache_tokens=500_000, rate=1.0),
)


def outcomes(
    cell: ReplicaCell, work: traces.ReplicaWorkload
) -> Iterator[tuple[str, SimulationResult]]:
    """Each policy's outcome."""
    yield "round robin", cell.play(work, RoundRobin())
    yield "random", cell.play(work, RandomReplica())
    yield "least loaded", cell.play(work, LeastLoaded())
    yield "**thriftgate**", cell.play(work, cell.router(work))
    yield "one cache", cell.play(work, LeastLoaded(), is_shared=True)


def faults(
    cell: ReplicaCell, work: traces.ReplicaWorkload
) -> Iterator[tuple[str, SimulationResult]]:
    """A wrong idea of the caches, silent restarts, and gateways that do not know of each other."""
    room = cell.cache_tokens
    for name, title in (("right", room), ("4 x too large", 4 * room), ("4 x too small", room // 4)):
        for learns in (True, False):
            policy = GatewayRouter(cache_tokens=title, block=work.block, is_learning=learns)
            label = f"cache config {name}, {'learning' if learns else 'not learning'}"
            yield label, cell.play(work, policy)
    for learns in (True, False):
        policy = GatewayRouter(cache_tokens=room, block=work.block, is_learning=learns)
        label = f"silent restarts, {'learning' if learns else 'not learning'}"
        yield label, cell.play(work, policy, prepare=partial(_restarts, work=work))
    homeless = RoutingPolicy(tie_s=0.0, home_credit=0.0)
    for gateways in (2, 4):
        for name, policy_of in (("", RoutingPolicy()), (", without home", homeless)):
            policy = GatewayRouter(
                policy_of, cache_tokens=room, block=work.block, gateways=gateways
            )
            yield f"{gateways} gateways{name}", cell.play(work, policy)


def _restarts(simulation: Simulation, work: traces.ReplicaWorkload) -> None:
    """Each replica loses its cache a few times."""
    last = max(session.start for session in work.sessions)
    random = Random(5)  # noqa: S311 - the same traffic each time
    for replica in simulation.replicas:
        for _ in range(3):
            simulation.at(random.uniform(0, last), partial(_lose, replica.cache))


def _lose(cache: BlockCache, _now: float) -> None:
    cache.clear()


def decision_costs(measure: Callable[[Callable[[], object]], float]) -> Iterator[tuple[str, float]]:
    """Costs of the steps of a decision, for a prompt of 100,000 tokens and 16 replicas."""
    random = Random(7)  # noqa: S311 - the same traffic each time
    router = ReplicaRouter()
    root = chain_root("model", "organisation")
    names = [ReplicaCandidate(name=f"http://replica-{n}:8000") for n in range(16)]
    shared = random.randbytes(200_000)
    prompts = [shared + random.randbytes(200_000) for _ in range(32)]
    for number, prompt in enumerate(prompts):
        chain = prompt_chain(root, prompt, 100_000)
        request = RoutingRequest(chain=chain, conversation=str(number))
        cost = router.decide(request, names, 0.0).order[number % 16]
        router.send(request, cost, 0.0).end(0.0, 0)
    request = RoutingRequest(chain=prompt_chain(root, prompts[0], 100_000))
    cost = router.decide(request, names, 0.0).order[0]
    yield (
        "hash 400 KB once (BLAKE2b): the reference",
        measure(lambda: blake2b(prompts[0]).digest()),
    )
    yield "decision, given the chain", measure(lambda: router.decide(request, names, 0.0))
    yield "noting that it was sent", measure(lambda: router.send(request, cost, 0.0).end(0.0))
    yield "chain of a prompt", measure(lambda: prompt_chain(root, prompts[0], 100_000))
    body = _chat_body(prompts[0])
    yield (
        "its prompt, read from the body of a chat call",
        measure(lambda: call_prompt(body, _CHAT)),
    )


def _chat_body(content: bytes) -> bytes:
    """A chat call with so many bytes of text, in messages of 4,000 characters."""
    text = content.hex()[: len(content)]
    parts = [text[start : start + 4_000] for start in range(0, len(text), 4_000)]
    return json.dumps({"messages": [{"role": "user", "content": part} for part in parts]}).encode()


def _median_time(work: Callable[[], object]) -> float:
    """The processor time of some work in microseconds, the median of several rounds."""
    times = []
    for _ in range(_ROUNDS):
        begun = thread_time_ns()
        work()
        times.append((thread_time_ns() - begun) / 1000)
    return median(times)


def _print(
    cells: Iterator[ReplicaCell], play: Callable[..., Iterator[tuple[str, SimulationResult]]]
) -> None:
    for cell in cells:
        try:
            work = cell.workload()
        except (FileNotFoundError, ValueError) as error:
            print(f"\nleft out: a trace is absent ({error})")
            continue
        print(f"\n{work.name}, {cell.replicas} replicas of {cell.cache_tokens:,} tokens, ", end="")
        print(f"rate x {cell.rate:g}\n\n| policy | hit rate | TTFT p50 | p90 | busiest / mean |")
        print("|---|--:|--:|--:|--:|")
        for name, outcome in play(cell, work):
            waits = f"{outcome.p50:.2f} | {outcome.p90:.2f}"
            print(
                f"| {name} | {outcome.hit_rate:.1%} | {waits} | {outcome.balance:.2f} |", flush=True
            )


def _parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("table", "faults", "time"), default="table")
    parser.add_argument("--quick", action="store_true", help="two cells only")
    parser.add_argument("--rows", help="numbers of rows, from 0")
    return parser.parse_args()


def main() -> None:
    """Print the tables as markdown."""
    options = _parsed_options()
    cells: tuple[ReplicaCell, ...] = (*TUNED, *UNSEEN)
    chosen = cells[::7] if options.quick else cells
    if options.rows:
        chosen = tuple(cells[int(row)] for row in options.rows.split(","))
    if options.part == "table":
        _print(iter(chosen), outcomes)
    elif options.part == "time":
        times = list(decision_costs(_median_time))
        print("| step | µs | reference = 1 |\n|---|--:|--:|")
        for name, taken in times:
            print(f"| {name} | {taken:.0f} | {taken / times[0][1]:.2f} |")
    else:
        _print(iter(TUNED), faults)


if __name__ == "__main__":
    main()
