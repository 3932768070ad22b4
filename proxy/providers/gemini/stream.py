"""The pieces of a ``streamGenerateContent`` stream as chat completion chunks.

::

    first piece               role
    text, thought             content | reasoning_content
    functionCall              tool call with its arguments, whole
    end of the stream         finish_reason, usage if asked for, [DONE]
    an error                  an error event; nothing follows it

Google's streams end without a word, so the last chunks come at the end of the connection.
Source: Google, Gemini API, streamGenerateContent; OpenAI, chat completion chunks (2026-11).
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from proxy.providers.event_reader import EventReader
from proxy.providers.gemini.answer import (
    CallNumbers,
    GoogleAnswer,
    GoogleCandidate,
    GooglePart,
    google_failure,
    id_tail,
    read_answer,
)
from proxy.providers.gemini.signatures import extra_content
from proxy.providers.gemini.usage import chat_counts
from proxy.providers.google_finish import failed_finish, finish_reason
from proxy.providers.stream_endings import error_event, truncated_stream
from proxy.providers.usage import merge_usage

Json = dict[str, Any]
_DONE: Final = b"data: [DONE]\n\n"


class ChunkStream(EventReader):
    """Turns a stream of Google's into chat completion chunks."""

    def __init__(self, *, model: str, created: int, wants_usage: bool) -> None:
        """Answer in the caller's words.

        Args:
            model: The name that the answer gives as its model's.
            created: Arrival of the call, in whole seconds since the epoch.
            wants_usage: True if the caller asked for a usage chunk at the end.
        """
        super().__init__()
        self._model = model
        self._created = created
        self._wants_usage = wants_usage
        self._id = ""
        self._numbers = CallNumbers()
        self._reasons: dict[int, str] = {}
        self._begun: set[int] = set()
        self._usage: Json = {}

    def end(self) -> bytes:
        """The last chunks.

        Raises:
            UpstreamError: If the upstream ended in the middle of its answer.
        """
        if self._has_ended:
            return b""
        if self._unread is not None or not self._reasons:
            raise self._unread or truncated_stream()
        chunks = []
        for index, reason in sorted(self._reasons.items()):
            known = finish_reason(reason, calls=self._numbers.calls(index))
            chunks.append(self._chunk(index, {}, known))
        counted = chat_counts(self._usage)
        if self._wants_usage and counted is not None:
            chunks.append(self._frame([], counted))
        return b"".join(chunks) + _DONE

    def _read(self, data: bytes) -> bytes:
        return b"".join(self._chunks(read_answer(data)))

    def _chunks(self, answer: GoogleAnswer) -> Iterator[bytes]:
        if answer.error is not None:
            self._has_ended = True
            yield error_event("chat/completions", google_failure(answer.error))
            return
        self._id = self._id or answer.response_id
        merge_usage(self._usage, answer.usage_metadata or {})
        if answer.is_blocked:
            yield from self._begin(0)
            self._reasons[0] = "SAFETY"
        for candidate in answer.candidates:
            yield from self._candidate_chunks(candidate)
        self._unread = failed_finish(answer.candidates)

    def _candidate_chunks(self, candidate: GoogleCandidate) -> Iterator[bytes]:
        yield from self._begin(candidate.index)
        for part in candidate.content.parts if candidate.content is not None else ():
            if delta := self._delta(candidate.index, part):
                yield self._chunk(candidate.index, delta)
        if candidate.finish_reason:
            self._reasons[candidate.index] = candidate.finish_reason

    def _begin(self, index: int) -> Iterator[bytes]:
        if index not in self._begun:
            self._begun.add(index)
            yield self._chunk(index, {"role": "assistant", "content": "", "refusal": None})

    def _delta(self, index: int, part: GooglePart) -> Json:
        """The change that a part makes; empty for none."""
        if part.function_call is not None:
            return {"tool_calls": [self._numbers.tool_call(index, part, id_tail(self._id))]}
        if part.thought:
            return {"reasoning_content": part.text} if part.text else {}
        words = {"content": part.text} if part.text else {}
        return words | extra_content(part.thought_signature)

    def _chunk(self, index: int, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._frame([choice], None)

    def _frame(self, choices: list[Json], usage: Json | None) -> bytes:
        chunk: Json = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }
        if self._wants_usage:
            chunk["usage"] = usage
        return b"data: " + orjson.dumps(chunk) + b"\n\n"
