"""The summariser: a small model takes notes on compacted parts, for the next compaction.

::

    request_notes ── once for each compacted part ──▶ queue ─ ask the model ─ validate ─ store
    notes ◀── at a later compaction, on its thread ── the stored notes, the same from then on

No call waits for the model. The notes that a compaction used are stored under its own name, so
every process that compacts the same conversation sends the same bytes. A process that cannot reach
the store uses none, and remembers that.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import msgspec

from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.facts.fact import Fact, Region
from compaction.facts.region_contents import RegionContents, read_region
from compaction.memory import CompactionMemory
from compaction.notes.note_prompt import note_request_body
from compaction.notes.note_validation import notes_key, validate_notes
from compaction.policy import CompactionMode, CompactionPolicy
from proxy.app_context import AppContext
from proxy.calls.ports import BackgroundTaskGroup
from proxy.errors import ProxyError
from proxy.records.call import Call
from proxy.records.lru_cache import LruCache
from proxy.services.compaction.summary_request import (
    CallServer,
    SummaryReply,
    answer_text,
    request_template,
    summary_call,
)
from proxy.store.errors import StoreError
from proxy.store.sql.ids import call_ids
from proxy.store.store import Store

_log = logging.getLogger("thriftgate.compaction")

#: Seconds that a compaction waits for the store, and that nobody asks it again once it was late.
_STORE_DEADLINE_S: Final = 0.15
_STORE_PAUSE_S: Final = 10.0
#: Seconds that a question may take in all.
_ANSWER_DEADLINE_S: Final = 60.0
#: Questions under way at once, and those that wait; with the bytes of what all are about.
_MAX_CONCURRENT_QUESTIONS: Final = 4
_MAX_WAITING_QUESTIONS: Final = 32
_MAX_WAITING_BYTES: Final = 32 * 2**20
#: Parts remembered as asked about, and bytes of what compacts took.
_MAX_ASKED_PARTS: Final = 8_192
_MAX_NOTES_BYTES: Final = 16 * 2**20
#: Seconds that questions get to leave their receipts when the process stops.
_STOP_DEADLINE_S: Final = 5.0


class _Question(msgspec.Struct, frozen=True, kw_only=True):
    """A part to be asked about.

    Attributes:
        call: The call, but for its body.
        known: Facts that rules found in it.
        size: Bytes of its messages.
    """

    name: str
    call: Call
    region: Region
    known: Sequence[Fact]
    size: int


class Summariser:
    """The notes of one process; ``notes`` is for any thread, all else for the loop.

    Args:
        model: The public name of the model that is asked.

    Attributes:
        serve: Answers the questions; until there is one, none is asked.
    """

    def __init__(
        self, store: Store, tasks: BackgroundTaskGroup, *, model: str, now: Callable[[], float]
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._model = model
        self._now = now
        self._call_id = call_ids()
        self._taken: LruCache[str, tuple[str, ...]] = LruCache(_MAX_NOTES_BYTES, _notes_bytes)
        self._lock = threading.Lock()
        self._away_until = 0.0
        # Of its own: where the store hangs, no other work of it waits behind.
        self._store_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="notes")
        self._asked: LruCache[str, bool] = LruCache(_MAX_ASKED_PARTS)
        self._waiting: deque[_Question] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._held = 0
        self._is_closed = False
        self.serve: CallServer | None = None

    def compact(
        self,
        raws: Sequence[bytes],
        policy: CompactionPolicy,
        *,
        memory: CompactionMemory,
        context: ConversationContext,
    ) -> CompactedChat:
        """Compacts like ``compaction.compact.compact``, with notes where the mode wants some.

        Raises:
            CannotCompactError: If the messages are sent unmodified.
        """
        if policy.mode is CompactionMode.FACTS_MODEL:
            context = msgspec.structs.replace(context, notes=self.notes)
        return compact(raws, policy, memory=memory, context=context)

    def notes(self, before: bytes, here: bytes) -> tuple[str, ...]:
        """The notes on the previous part that this compaction takes; may wait for the store.

        Args:
            before: Digest of the part compacted before; it holds whose conversation it is.
            here: Digest of the new one.
        """
        name = notes_key(before, here)
        with self._lock:
            notes = self._taken.get(name)
        if notes is not None:
            return notes
        claimed_notes = self._claim_notes(_part_name(before), name)
        with self._lock:  # two threads may ask at once: what the first was told holds for both
            return self._taken.get_or_make(name, lambda: claimed_notes)

    def request_notes(self, call: Call, chat: CompactedChat) -> None:
        """Requests notes on what was compacted at a call, once, if the queue has room."""
        region, name = chat.region, _part_name(chat.newest)
        if region is None or self.serve is None or self._is_closed or name in self._asked:
            return
        size = sum(len(message.raw) for message in region.messages[region.start : region.end])
        if len(self._waiting) >= _MAX_WAITING_QUESTIONS or self._held + size > _MAX_WAITING_BYTES:
            _log.info("Too many requests for notes wait; none is made for call %s", call.id)
            return
        self._asked.put(name, value=True)
        self._held += size
        self._waiting.append(
            _Question(
                name=name,
                call=request_template(call),
                region=_without_surroundings(region),
                known=chat.segments[-1].facts,
                size=size,
            )
        )
        self._start_questions()

    async def stop(self) -> None:
        """Ask nothing more; what is asked just now is cut off, and leaves its receipts."""
        self._is_closed = True
        self._waiting.clear()
        self._store_thread.shutdown(wait=False, cancel_futures=True)
        if running := list(self._running):
            self._tasks.end(*running)
            await asyncio.wait(running, timeout=_STOP_DEADLINE_S)

    def _claim_notes(self, part: str, compaction: str) -> tuple[str, ...]:
        """The notes in the store; none where it does not answer in time."""
        now = self._now()
        if now < self._away_until or self._is_closed:
            return ()
        future = self._store_thread.submit(self._store.notes.claim, part, compaction, now)
        try:
            return future.result(_STORE_DEADLINE_S)
        except (TimeoutError, StoreError) as error:
            future.cancel()
            self._away_until = now + _STORE_PAUSE_S
            _log.warning(
                "The store did not return notes; compactions go without for %d s: %r",
                _STORE_PAUSE_S,
                error,
            )
            return ()

    def _start_questions(self) -> None:
        """Begin with as many questions as may be under way."""
        while self._waiting and len(self._running) < _MAX_CONCURRENT_QUESTIONS:
            question_ = self._waiting.popleft()
            task = self._tasks.start(partial(self._ask_and_store, question_))
            self._running.add(task)
            task.add_done_callback(partial(self._end_question, question_))

    def _end_question(self, question_: _Question, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._held -= question_.size
        self._start_questions()

    async def _ask_and_store(self, question_: _Question) -> None:
        """Asks, and stores the valid notes of the answer; whatever fails, there are no notes."""
        try:
            async with asyncio.timeout(_ANSWER_DEADLINE_S):
                await self._ask_for_notes(question_)
        except ProxyError as error:
            _log.info("A request for notes failed: %s (%s)", error.code, error.message)
        except (TimeoutError, StoreError) as error:
            _log.warning("A request for notes failed: %r", error)

    async def _ask_for_notes(self, question: _Question) -> None:
        store = self._store
        serve = self.serve
        if serve is None or await store.ask(store.notes.has, question.name):
            return
        read, body = await asyncio.to_thread(_note_request, question, self._model)
        now, reply = self._now(), SummaryReply()
        await serve(summary_call(question.call, body, self._call_id(now), now), reply)
        text, finish = answer_text(reply)
        notes = await asyncio.to_thread(validate_notes, text, finish, read, question.known)
        _log.info(
            "Notes on a part for feature %r: %d lines kept, rejected %s",
            question.call.feature,
            len(notes.facts),
            ", ".join(f"{count} {why.value}" for why, count in notes.rejected.items()) or "none",
        )
        if finish == "stop":
            await store.ask(store.notes.keep, question.name, notes.lines(), self._now())


def build_summariser(context: AppContext) -> Summariser | None:
    """The summariser of a gateway; None where no model is named, or one that the catalog lacks."""
    model = context.settings.compaction_model
    if context.catalog.find(model) is None:
        return None
    return Summariser(context.opened, context.tasks, model=model, now=context.now)


def _part_name(key: bytes) -> str:
    """The name of a part, whichever model is asked: another one's notes do not move what is sent.

    A compaction that takes notes has another name than the part it makes, for it names both.
    """
    return notes_key(b"", key)


def _without_surroundings(region: Region) -> Region:
    """The part without what was said beside it, so that little is held while it waits."""
    messages = region.messages
    first = messages[region.start : region.start + 1]
    return msgspec.structs.replace(
        region,
        messages=first * region.start + messages[region.start : region.end],
        units=tuple(
            unit for unit in region.units if unit.start < region.end and unit.end > region.start
        ),
    )


def _note_request(question: _Question, model: str) -> tuple[RegionContents, bytes]:
    """The part read, and the body that asks about it."""
    read = read_region(question.region)
    return read, note_request_body(read, question.known, model=model)


def _notes_bytes(notes: Sequence[str]) -> int:
    """Bytes that a compaction's notes take in memory, about."""
    return 256 + sum(2 * len(line) + 64 for line in notes)
