"""A conversation worth notes, models that take them, and notebooks with all around them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from compaction.compact import CompactedChat, ConversationContext
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from proxy.calls.ports import Caller, Head
from proxy.records.call import Call
from proxy.services.compaction.summariser import Summariser
from proxy.store.store import Store
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.receipts import a_receipt
from tests.proxy.services.compaction.compaction_fixtures import (
    NOW,
    Json,
    chat,
    chat_message,
    open_store,
)

POLICY = CompactionPolicy(mode=CompactionMode.FACTS_MODEL, force=True, least=600, keep_turns=1)
SCOPE = b"team_1"
_PADDING = "I have looked at all of it with great care, and everything is as it should be. " * 12


def visit(turns: int) -> list[Json]:
    """A customer with so many wishes; each is settled in the answer to it."""
    messages = [chat_message("system", "You help with journeys.")]
    for number in range(1, turns + 1):
        messages.append(chat_message("user", f"Please see to journey J{number}77."))
        messages.append(
            chat_message("assistant", f"Journey J{number}77 goes by night train. {_PADDING}")
        )
    return [*messages, chat_message("user", "And now?")]


def raws(turns: int) -> list[bytes]:
    return [orjson.dumps(message) for message in visit(turns)]


def note(turn: int, text: str = "", kind: str = "decision") -> str:
    """A line that stands on what was said in a turn."""
    text = text or f"Journey J{turn}77 goes by night train"
    return orjson.dumps({"kind": kind, "text": text, "turns": [turn]}).decode()


def answer(*lines: str, finish: str = "stop", **fields: Any) -> bytes:
    """Return what a model answers."""
    message = {"role": "assistant", "content": "\n".join(lines)}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return orjson.dumps({"id": "chatcmpl-1", "choices": [choice], **fields})


class FakeNotesGateway:
    """A gateway that answers every question with these lines, or fails.

    Attributes:
        asked: The questions, in order.
        most: How many were under way at once.
    """

    def __init__(self, *lines: str, error: Exception | None = None, body: bytes = b"") -> None:
        self._body = body or answer(*(lines or [note(1)]))
        self._error = error
        self._now = 0
        self.gate: asyncio.Event | None = None
        self.asked: list[Call] = []
        self.most = 0

    async def __call__(self, call: Call, caller: Caller) -> None:
        self.asked.append(call)
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await (self.gate.wait() if self.gate is not None else asyncio.sleep(0))
        finally:
            self._now -= 1
        if self._error is not None:
            raise self._error
        await caller.send_whole(Head(200, {}, "small", ()), self._body, a_receipt())


class SummariserHarness:
    """A notebook at work.

    Attributes:
        book: The notebook.
        taker: The model behind it.
    """

    def __init__(self, store: Store, taker: FakeNotesGateway, **fields: Any) -> None:
        self.tasks = LoopTasks()
        defaults: dict[str, Any] = {"model": "small", "now": lambda: NOW}
        self.book = Summariser(store, self.tasks, **(defaults | fields))
        self.taker = taker
        self.book.serve = taker
        self.memory = CompactionMemory()

    def compact(
        self, turns: int, policy: CompactionPolicy = POLICY, scope: bytes = SCOPE
    ) -> CompactedChat:
        return self.book.compact(
            raws(turns), policy, memory=self.memory, context=ConversationContext(scope=scope)
        )

    async def call(self, turns: int, **fields: Any) -> CompactedChat:
        """A call of so many turns, whose questions are answered before it returns."""
        compacted = await asyncio.to_thread(self.compact, turns)
        if compacted.region is not None:
            self.book.request_notes(chat(*visit(turns), **fields), compacted)
        await self.rest()
        return compacted

    async def rest(self) -> None:
        """Wait until nothing is asked."""
        while running := self.book._running:
            await asyncio.wait(running)
            await asyncio.sleep(0)


def play(
    folder: Path,
    work: Callable[[SummariserHarness, Store], Awaitable[None]],
    taker: FakeNotesGateway | None = None,
) -> SummariserHarness:
    """Let a notebook over a store of its own work."""
    store = open_store(folder)

    async def run() -> SummariserHarness:
        stage = SummariserHarness(store, taker or FakeNotesGateway())
        try:
            await work(stage, store)
        finally:
            await stage.book.stop()
        return stage

    try:
        return asyncio.run(run())
    finally:
        store.close(5)
