"""Equal calls of one feature through the whole pipeline, before an upstream with a script."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction
from typing import Any

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.ports import Dependencies
from proxy.errors import ProxyError
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.records.call import Call
from proxy.records.receipt import Receipt
from proxy.records.timeline import Timeline
from proxy.services.fast_path.answer_cache import AnswerCache
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from slo.policies.answer_cache import AnswerCachePolicy
from tests.fakes.answers import DONE, chunk
from tests.fakes.call_dependencies import call, fake_dependencies, serve_call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.upstream import FakeTransport, Piece, ScriptedAnswer

NOW = 1_790_000_000.0
BODY = b'{"model":"m","temperature":0,"messages":[{"role":"user","content":"Hi"}]}'
STREAMED = b'{"model":"m","temperature":0,"stream":true,"messages":[]}'
WHOLE = (
    b'{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",'
    b'"message":{"role":"assistant","content":"Hi"}}],"usage":{"prompt_tokens":100,'
    b'"completion_tokens":10}}'
)
#: Cost of it: a dollar per million prompt tokens, four per million generated.
WHOLE_NANOS = 100_000 + 40_000
EVENTS = (chunk("Hel"), chunk("lo"), chunk("", reason="stop"), DONE)
POLICY = AnswerCachePolicy(name="chat", feature="chat", ttl=60.0)
PATIENCE = RetryPolicy(first_byte_s=10.0, stall_s=5.0, retries=0)


@dataclass
class SharedCallResult:
    """One call and its result."""

    caller: FakeCaller
    error: ProxyError | None = None

    @property
    def cache(self) -> str:
        """The header with the cache's part, without the key."""
        assert self.caller.head is not None
        told = self.caller.head.headers["x-thriftgate-cache"]
        return told.partition("; key=")[0]


class CacheWithFaults:
    """A cache of answers of which some parts fail, or take long.

    Args:
        cache: The one that does the rest.
        parts: What is called or awaited first, by the name of the part.
    """

    def __init__(self, cache: AnswerCache, **parts: Callable[[], Any]) -> None:
        self._cache = cache
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        part = getattr(self._cache, name)
        if name not in self._parts:
            return part

        async def wait_first(*values: Any) -> Any:
            await self._parts[name]()
            return await part(*values)

        def call_first(*values: Any) -> Any:
            self._parts[name]()
            return part(*values)

        return wait_first if iscoroutinefunction(part) else call_first


@dataclass
class SharedCalls:
    """Calls to one gateway.

    Attributes:
        seconds: Time since the first call, by which answers grow old.
    """

    table: Dependencies
    transport: FakeTransport
    receipts: list[Receipt]
    cache: AnswerCache
    seconds: float = 0.0
    made: int = 0
    running: list[asyncio.Task[SharedCallResult]] = field(default_factory=list)

    async def make(self, body: bytes = BODY, **fields: Any) -> SharedCallResult:
        """The result of one call, of which ``caller`` may be given."""
        caller = fields.pop("caller", None) or FakeCaller()
        self.made += 1
        asked: Call = call(
            body, id=f"call_{self.made}", **{"arrived": NOW + self.seconds, **fields}
        )
        done = SharedCallResult(caller)
        try:
            await serve_call(asked, caller, self.table, Timeline(ticks))
        except ProxyError as error:
            done.error = error
        return done

    def begin(self, body: bytes = BODY, **fields: Any) -> asyncio.Task[SharedCallResult]:
        """A call that goes on beside others."""
        task = asyncio.get_running_loop().create_task(self.make(body, **fields))
        self.running.append(task)
        return task

    def receipt(self, number: int) -> Receipt:
        """The final receipt of a call, counted from 1."""
        (found,) = [
            receipt
            for receipt in self.receipts
            if receipt.call_id == f"call_{number}" and receipt.final
        ]
        return found

    @property
    def sent_count(self) -> int:
        """Number of calls that the upstream got."""
        return len(self.transport.sent)


def play(
    *scripts: ScriptedAnswer | Piece,
    make_calls: Callable[[SharedCalls], Coroutine[Any, Any, None]],
    policy: AnswerCachePolicy = POLICY,
    **dependencies: Any,
) -> SharedCalls:
    """Make calls before an upstream that answers by these scripts, in instant time."""

    async def run_calls() -> SharedCalls:
        transport = FakeTransport(scripts)
        table, ledger = fake_dependencies(transport, patience=PATIENCE)
        memory = AnswerMemory(2**20)
        metrics = AnswerMetrics(memory, lambda team: team)
        cache = AnswerCache((policy,), memory, lambda: NOW + calls.seconds, metrics)
        table = replace(table, answers=cache, **dependencies)
        calls = SharedCalls(table, transport, ledger.receipts, cache)
        await make_calls(calls)
        return calls

    return run_in_instant_time(run_calls())
