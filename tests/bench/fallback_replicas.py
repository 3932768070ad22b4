# ruff: noqa: T201 - a script prints its result
"""Fallbacks, TTFT deadlines and ladders over HTTP: two gateways, one PostgreSQL, one Redis.

Three tables, in real time, each beside the same calls sent another way:

- *fallback*: calls with parameters that the model in its place does not take, the model they ask
  for failing; how many are answered, and by whom.
- *deadline*: streams with a TTFT objective beside the same streams without one, on routes that are
  slow, very slow or dead.
- *moves*: the same streams while an outage moves from the first route to the second.
- *ladder*: how long new conversations stay on a level that is as bad as the one before it.

Usage: python -m tests.bench.fallback_replicas [fallbacks] [deadlines] [moves] [ladder]
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx

from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.plain_http import PLAIN
from tests.fakes.postgres import schema
from tests.fakes.redis_keys import SERVER
from tests.fakes.replicas import SiblingProcess
from tests.fakes.serve_process import ServeProcess, serve_process

_SWIFT: Mapping[str, Any] = {"regime": "", "ttft": 0.05, "per_1k": 0.0, "itl": 0.001, "words": 5}
_MODELS = {
    name: SimulatedModel(**_SWIFT)
    for name in ("gpt-4o-mini", "gpt-5.5", "one", "two", "three", "four", "small")
} | {"claude": SimulatedModel(**_SWIFT, wire="anthropic", traits=frozenset({"adaptive_thinking"}))}
_CATALOG = """
[upstreams.lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[upstreams.other]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[upstreams.lab-anthropic]
kind = "anthropic"
base_url = "{url}"
headers = {{ x-api-key = "sk-simulated" }}

[[models]]
id = "gpt-4o-mini"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "0.15", output = "0.6" }}
traits = ["max_tokens", "sampling", "stop", "openai_params"]
fallbacks = ["gpt-5.5", "claude"]

[[models]]
id = "gpt-5.5"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "10" }}
traits = ["max_completion_tokens", "effort", "developer", "openai_params"]

[[models]]
id = "claude"
upstream = "lab-anthropic"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "10" }}
traits = ["adaptive_thinking"]

[[models]]
id = "promised"
window = 128_000
max_output = 4_096
routes = [
  {{ upstream = "lab", model = "one", price = {{ input = "2", output = "10" }} }},
  {{ upstream = "other", model = "two", price = {{ input = "2", output = "10" }} }},
]

[[models]]
id = "plain"
window = 128_000
max_output = 4_096
routes = [
  {{ upstream = "lab", model = "one", price = {{ input = "2", output = "10" }} }},
  {{ upstream = "other", model = "two", price = {{ input = "2", output = "10" }} }},
]

[[models]]
id = "laddered"
window = 128_000
max_output = 4_096
routes = [
  {{ upstream = "lab", model = "three", price = {{ input = "2", output = "10" }} }},
  {{ upstream = "other", model = "four", price = {{ input = "2", output = "10" }} }},
]

[[models]]
id = "small"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "0.2", output = "1" }}
"""
_POLICIES = """
[[objectives]]
name = "deadline"
feature = "promised"
metric = "ttft"
p = 95
under = "300ms"
enforce = "degrade"
ladder = ["elsewhere"]

[[objectives]]
name = "ladder"
feature = "laddered"
metric = "ttft"
p = 95
under = "300ms"
enforce = "degrade"
ladder = ["elsewhere", "small"]
"""
#: The row in which the other route begins within the deadline.
_RESCUED = "first 1.5 s, second sound"
#: What the two routes of a model suffer, by name.
_ROUTES = {
    "both 0.5 s": ("slow=10", "slow=10"),
    "both 1.5 s": ("slow=30", "slow=30"),
    _RESCUED: ("slow=30", ""),
    "first dead, second 0.5 s": ("503", "slow=10"),
    "first silent, second 0.5 s": ("silence", "slow=10"),
    "both sound": ("", ""),
}
#: What the two routes suffer, one phase after the other: an outage that moves.
_MOVES = (("", ""), ("silence", "slow=10"), ("slow=10", "silence"), ("", ""))
_PHASE_S = 15.0
#: Seconds after a move in which calls may still find out.
_LEARNING_S = 3.0
_CALLS = 120
_RATE = 6.0
_LADDER_S = 40.0
#: Seconds by which three quarters of the calls are to pass both bad levels over.
_LADDER_WITHIN_S = 15
_UNDER_S = 0.3
_TIMEOUT = 20.0


@dataclass(frozen=True)
class FallbackReplicas:
    """Two gateways, and the simulator before which they stand."""

    gateways: Sequence[ServeProcess]
    lab: Simulator


@dataclass(frozen=True)
class TimedAnswer:
    """The answer to a call; seconds, and when it was made."""

    began: float
    ttft: float
    status: int
    model: str


@asynccontextmanager
async def _simulator(folder: Path) -> AsyncIterator[tuple[Simulator, Path]]:
    lab = Simulator(SimulatorSettings(models=_MODELS), clock=time.monotonic, sleep=asyncio.sleep)
    async with serving(app(lab)) as url:
        catalog = folder / "catalog.toml"
        catalog.write_text(_CATALOG.format(url=url))
        yield lab, catalog


@contextmanager
def running(folder: Path) -> Iterator[FallbackReplicas]:
    """Two gateway processes on one PostgreSQL schema and one Redis."""
    (folder / "policies.toml").write_text(_POLICIES)
    with ExitStack() as stack:
        lab, catalog = stack.enter_context(running_in_thread(lambda: _simulator(folder)))
        first = stack.enter_context(serve_process(folder, catalog, stack.enter_context(schema())))
        second = SiblingProcess(first, folder)
        stack.callback(second.kill)
        for gateway in (first, second):
            gateway.start(
                THRIFTGATE_POLICIES=str(folder / "policies.toml"), THRIFTGATE_REDIS_URL=SERVER
            )
        yield FallbackReplicas((first, second), lab)


async def _stream(
    client: httpx.AsyncClient, to: ServeProcess, model: str, number: int
) -> TimedAnswer:
    body = {
        "model": model,
        "stream": True,
        "messages": [{"role": "user", "content": f"{model}, conversation {number}"}],
    }
    began = time.monotonic()
    first, status, by = _TIMEOUT, 0, ""
    headers = {"authorization": f"Bearer {to.key}", "x-thriftgate-feature": model}
    url = f"{to.url}/v1/chat/completions"
    try:
        async with client.stream("POST", url, json=body, headers=headers) as answer:
            status, by = answer.status_code, answer.headers.get("x-thriftgate-model", "")
            async for line in answer.aiter_lines():
                if '"content":"' in line and '"content":""' not in line:
                    first = min(first, time.monotonic() - began)
    except httpx.HTTPError:
        pass
    return TimedAnswer(began, first, status, by)


async def _stream_steadily(
    both: FallbackReplicas, models: Sequence[str], over: float
) -> list[TimedAnswer]:
    """Streams at a steady rate, in turn to both gateways and to each model."""
    async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT, verify=PLAIN) as client:
        tasks = []
        async with asyncio.TaskGroup() as group:
            for number in range(int(over * _RATE)):
                for model in models:
                    to = both.gateways[number % 2]
                    tasks.append(group.create_task(_stream(client, to, model, number)))
                await asyncio.sleep(1 / _RATE)
        return [task.result() for task in tasks]


def fallbacks(both: FallbackReplicas) -> bool:
    """Print who answers calls whose parameters the substitute does not take."""
    rows: Mapping[str, Mapping[str, Any]] = {
        "max_tokens, temperature": {"max_tokens": 40, "temperature": 0.3},
        "max_tokens, user, seed": {"max_tokens": 40, "user": "u", "seed": 3},
        "n = 2 (no substitute takes it)": {"n": 2, "max_tokens": 40},
    }
    print("| parameters | failing | answered by | statuses | skipped |\n|---|---|---|---|---|")
    sound = True
    for failing in (("gpt-4o-mini",), ("gpt-4o-mini", "gpt-5.5")):
        for model in failing:
            both.lab.inject_fault(model, "503")
        for name, fields in rows.items():
            statuses: Counter[int] = Counter()
            by: Counter[str] = Counter()
            skipped = ""
            for number in range(6):
                to = both.gateways[number % 2]
                answer = httpx.post(
                    f"{to.url}/v1/chat/completions",
                    json={
                        "model": "gpt-4o-mini",
                        "messages": [{"role": "user", "content": f"{name} {number}"}],
                        **fields,
                    },
                    headers={"authorization": f"Bearer {to.key}"},
                    timeout=_TIMEOUT,
                    trust_env=False,
                    verify=PLAIN,
                )
                statuses[answer.status_code] += 1
                by[answer.headers.get("x-thriftgate-model", "-")] += 1
                skipped = answer.headers.get("x-thriftgate-fallback-skipped", "")
            sound &= statuses[200] == 6 or "n" in fields
            print(f"| {name} | {', '.join(failing)} | {dict(by)} | {dict(statuses)} | {skipped} |")
    for model in ("gpt-4o-mini", "gpt-5.5"):
        both.lab.inject_fault(model, "")
    return sound


def _percentiles(answers: Sequence[TimedAnswer]) -> tuple[float, float]:
    cuts = quantiles([answer.ttft for answer in answers], n=20)
    return cuts[9], cuts[18]


def deadlines(both: FallbackReplicas) -> bool:
    """Print TTFT with and without a deadline, both sent at the same moments."""
    print(
        "\n| routes | without p50, p95 | with p50, p95 | failed without, with"
        " | late without, with |"
        "\n|---|--:|--:|--:|--:|"
    )
    sound = True
    for name, (one, two) in _ROUTES.items():
        both.lab.inject_fault("one", one)
        both.lab.inject_fault("two", two)
        answers = asyncio.run(_stream_steadily(both, ("plain", "promised"), _CALLS / _RATE))
        sides = answers[::2], answers[1::2]
        (plain50, plain95), (with50, with95) = map(_percentiles, sides)
        failed = [sum(answer.status != 200 for answer in side) for side in sides]
        late = [sum(answer.ttft > plain95 + 0.1 for answer in side) for side in sides]
        print(
            f"| {name} | {plain50:.2f}, {plain95:.2f} s | {with50:.2f}, {with95:.2f} s"
            f" | {failed[0]}, {failed[1]} | {late[0]}, {late[1]} |",
            flush=True,
        )
        sound &= with50 <= 1.1 * plain50 + 0.05 and with95 <= 1.1 * plain95 + 0.05
        sound &= name != _RESCUED or with50 <= _UNDER_S
        both.lab.inject_fault("one", "")
        both.lab.inject_fault("two", "")
    return sound


def moves(both: FallbackReplicas) -> bool:
    """Print TTFT with and without a deadline while an outage moves from one route to the other."""
    print(
        "\n| first route, second route | seconds since then | without p50, p95 | with p50, p95 |"
        "\n|---|---|--:|--:|"
    )
    sound = True
    for one, two in _MOVES:
        both.lab.inject_fault("one", one)
        both.lab.inject_fault("two", two)
        began = time.monotonic()
        answers = asyncio.run(_stream_steadily(both, ("plain", "promised"), _PHASE_S))
        for start, end in ((0.0, _LEARNING_S), (_LEARNING_S, _PHASE_S)):
            sides = (
                [answer for answer in side if start <= answer.began - began < end]
                for side in (answers[::2], answers[1::2])
            )
            (plain50, plain95), (with50, with95) = map(_percentiles, sides)
            print(
                f"| {one or 'sound'}, {two or 'sound'} | {start:.0f}-{end:.0f}"
                f" | {plain50:.2f}, {plain95:.2f} s | {with50:.2f}, {with95:.2f} s |",
                flush=True,
            )
            sound &= with50 <= 1.1 * plain50 + 0.05 or not start
            sound &= with95 <= 1.1 * plain95 + 0.05 or not start
    return sound


def ladder(both: FallbackReplicas) -> bool:
    """Print how long new conversations stay on a level as bad as the one before."""
    both.lab.inject_fault("three", "slow=30")
    both.lab.inject_fault("four", "slow=30")
    began = time.monotonic()
    answers = asyncio.run(_stream_steadily(both, ("laddered",), _LADDER_S))
    print("\nladder elsewhere, small; level 0 and 1 at 1.5 s, objective 0.3 s:")
    print("\n| seconds | calls | TTFT p50, p95 | not sent to levels 0 and 1 |\n|---|--:|--:|--:|")
    sound = True
    for start in range(0, int(_LADDER_S), 5):
        part = [answer for answer in answers if start <= answer.began - began < start + 5]
        if len(part) < 2:  # a machine that is busy sends none on time
            print(f"| {start}-{start + 5} | {len(part)} | - | - |")
            sound = False
            continue
        p50, p95 = _percentiles(part)
        spared = sum(answer.model == "small" and answer.ttft <= _UNDER_S for answer in part) / len(
            part
        )
        print(f"| {start}-{start + 5} | {len(part)} | {p50:.2f}, {p95:.2f} s | {spared:.0%} |")
        sound &= start < _LADDER_WITHIN_S or spared >= 0.75
    return sound


def main() -> None:
    """Print the tables; exit with 1 where a promise does not hold."""
    parts = {"fallbacks": fallbacks, "deadlines": deadlines, "moves": moves, "ladder": ladder}
    chosen = [parts[name] for name in sys.argv[1:]] or list(parts.values())
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as both:
        sound = [part(both) for part in chosen]
    sys.exit(0 if all(sound) else 1)


if __name__ == "__main__":
    main()
