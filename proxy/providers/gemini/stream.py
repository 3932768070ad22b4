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

from proxy.providers.answers.google_finish import failed_finish, finish_reason
from proxy.providers.answers.usage import merge_usage
from proxy.providers.chat.chat_answer import ChatReply, ChunkWriter, Json, usage_object
from proxy.providers.failures import failure_of_object
from proxy.providers.gemini.answer import (
    CallNumbers,
    GoogleAnswer,
    GoogleCandidate,
    GooglePart,
    id_tail,
    read_answer,
)
from proxy.providers.gemini.signatures import extra_content
from proxy.providers.gemini.usage import gemini_usage
from proxy.providers.readers import EventReader


class ChunkStream(EventReader):
    """Turns a stream of Google's into chat completion chunks."""

    def __init__(self, reply: ChatReply) -> None:
        super().__init__()
        self._writer = ChunkWriter(reply)
        self._numbers = CallNumbers()
        self._reasons: dict[int, str] = {}
        self._begun: set[int] = set()
        self._usage: Json = {}

    @property
    def _is_complete(self) -> bool:
        return bool(self._reasons)

    def _final_parts(self) -> bytes:
        chunks = []
        for index, reason in sorted(self._reasons.items()):
            chat_reason = finish_reason(reason, calls=self._numbers.calls(index))
            chunks.append(self._writer.chunk({}, index, chat_reason))
        usage = usage_object(gemini_usage(self._usage), has_writes=False)
        return b"".join(chunks) + self._writer.end(usage)

    def _read(self, data: bytes) -> bytes:
        return b"".join(self._chunks(read_answer(data)))

    def _chunks(self, answer: GoogleAnswer) -> Iterator[bytes]:
        if answer.error is not None:
            self._has_ended = True
            yield self._writer.error(failure_of_object(answer.error))
            return
        if not self._writer.answer_id:
            self._writer.answer_id = answer.response_id
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
                yield self._writer.chunk(delta, candidate.index)
        if candidate.finish_reason:
            self._reasons[candidate.index] = candidate.finish_reason

    def _begin(self, index: int) -> Iterator[bytes]:
        if index not in self._begun:
            self._begun.add(index)
            yield self._writer.begin(index)

    def _delta(self, index: int, part: GooglePart) -> Json:
        """The change that a part makes; empty for none."""
        if part.function_call is not None:
            return {
                "tool_calls": [
                    self._numbers.tool_call(index, part, id_tail(self._writer.answer_id))
                ]
            }
        if part.thought:
            return {"reasoning_content": part.text} if part.text else {}
        words = {"content": part.text} if part.text else {}
        return words | extra_content(part.thought_signature)
