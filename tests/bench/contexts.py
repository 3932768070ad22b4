# ruff: noqa: T201 - a script prints its result
"""Time that references take: ten texts of 20 KB and three pages in one call.

``python -m tests.bench.contexts`` prints the processor time of resolving, and how much later than
its slowest page a call is resolved.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

import orjson

from proxy.services.fast_path.contexts import ContextResolver
from slo.policies.contexts import ContextPolicy
from tests.fakes.call_dependencies import call as a_call
from tests.fakes.upstream import After, FakeTransport, ScriptedAnswer

_PREFIX: Final = "https://docs.example.com/"
_ROUNDS: Final = 500
_PAGE_S: Final = (0.005, 0.010, 0.020)
_HEADERS: Final = {"content-type": "text/plain"}


class _Rows:
    """A text of 20 KB under every name."""

    def texts(self, _team: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        return dict.fromkeys(names, 1000 * "Answer within a day ")


def _reserve(_size: int) -> None:
    """There is room for every body."""


async def _ask(question: Any, *args: Any) -> Any:
    return question(*args)


def _content(pages: int) -> list[dict[str, Any]]:
    texts = [{"type": "thriftgate.ref", "name": f"text-{n}", "version": 1} for n in range(10)]
    urls = [{"type": "thriftgate.fetch", "url": f"{_PREFIX}{n}"} for n in range(pages)]
    return [*texts, *urls]


async def _measure(pages: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a call: of processor time, and of time in all; the median of all rounds."""
    scripts = [
        ScriptedAnswer([After(delay, b"page")], headers=_HEADERS)
        for _ in range(rounds + 1)
        for delay in _PAGE_S[:pages]
    ]
    policy = ContextPolicy(name="bench", fetch=(_PREFIX,), deadline_ms=1_000)
    resolver = ContextResolver(_Rows(), _ask, FakeTransport(scripts), time.perf_counter, [policy])
    message = {"role": "system", "content": _content(pages)}
    call = a_call(orjson.dumps({"model": "m", "messages": [message]}))
    await resolver.resolve(call, _reserve)
    processor, passed = [], []
    for _ in range(rounds):
        began, began_processor = time.perf_counter(), time.process_time()
        await resolver.resolve(call, _reserve)
        processor.append(time.process_time() - began_processor)
        passed.append(time.perf_counter() - began)
    middle = rounds // 2
    return sorted(processor)[middle] * 1_000, sorted(passed)[middle] * 1_000


def main() -> None:
    """Print both figures for texts alone, and for texts beside pages."""
    processor, _ = asyncio.run(_measure(0, _ROUNDS))
    print(f"10 texts of 20 KB: {processor:.3f} ms of processor time (goal 0.1)")
    _, passed = asyncio.run(_measure(len(_PAGE_S), _ROUNDS // 10))
    later = passed - max(_PAGE_S) * 1_000
    print(f"and 3 pages of 5, 10 and 20 ms: resolved {later:.2f} ms after the slowest (goal 1)")


if __name__ == "__main__":
    main()
