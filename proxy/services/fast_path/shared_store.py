"""Answers that several gateways share; a store that is away costs a call next to nothing."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from proxy.calls.ports import BackgroundTaskGroup
from proxy.fast_path.answer_cache.cached_answer import CachedAnswer, decode_answer, encode_answer
from proxy.store.errors import StoreError

_log = logging.getLogger("thriftgate.answers")

#: Seconds for which a store that did not answer is not asked again.
_OUTAGE_PAUSE_S: Final = 1.0
#: Questions, and answers that wait to be stored, at once; more are passed over.
_MAX_QUESTIONS, _MAX_WRITES = 64, 64


class AnswerBytes(Protocol):
    """Keeps answers as bytes, by key."""

    async def get(self, key: str) -> bytes | None:
        """The answer of a key; raises StoreError where the store is away."""
        ...

    async def put(self, key: str, value: bytes, ttl_s: float) -> int:
        """Store an answer; raises StoreError where the store is away."""
        ...


class SharedAnswerStore:
    """The answers of all gateways, as one process asks for them.

    Args:
        ticks: Seconds of a clock that goes forward.
    """

    def __init__(
        self, store: AnswerBytes, tasks: BackgroundTaskGroup, ticks: Callable[[], float]
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._ticks = ticks
        self._questions: dict[str, asyncio.Future[CachedAnswer | None]] = {}
        self._writes = 0
        self._away_until = float("-inf")

    async def get(self, key: str) -> CachedAnswer | None:
        """The answer of a key, asked for once by all who want it now; None where none comes."""
        if (pending := self._questions.get(key)) is not None:
            return await asyncio.shield(pending)
        if self._ticks() < self._away_until or len(self._questions) >= _MAX_QUESTIONS:
            return None
        question = self._questions[key] = asyncio.get_running_loop().create_future()
        answer: CachedAnswer | None = None
        try:
            stored = await self._store.get(key)
            answer = None if stored is None else decode_answer(stored)
        except StoreError as error:
            self._note_outage(error)
        finally:
            del self._questions[key]
            question.set_result(answer)
        return answer

    def put(self, answer: CachedAnswer, ttl_s: float) -> None:
        """Store an answer soon, if the store is there."""
        if self._ticks() >= self._away_until and self._writes < _MAX_WRITES:
            self._writes += 1
            self._tasks.start(partial(self._write, answer, ttl_s))

    async def _write(self, answer: CachedAnswer, ttl_s: float) -> None:
        try:
            await self._store.put(answer.key, encode_answer(answer), ttl_s)
        except StoreError as error:
            self._note_outage(error)
        finally:
            self._writes -= 1

    def _note_outage(self, error: StoreError) -> None:
        """Ask no more for a while."""
        self._away_until = self._ticks() + _OUTAGE_PAUSE_S
        _log.warning("Kept answers are not shared just now: %s", error)
