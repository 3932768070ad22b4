"""Answers of ``generateContent`` as this wire reads them, and as a chat completion.

Source: Google, Gemini API, GenerateContentResponse; OpenAI, the chat completion object (2026-11).
"""

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw

from proxy.providers.answers.google_finish import GoogleFinish, failed_finish, finish_reason
from proxy.providers.chat.chat_answer import (
    ChatReply,
    Json,
    chat_choice,
    chat_message,
    function_call,
    usage_object,
)
from proxy.providers.chat.chat_body import is_given
from proxy.providers.failures import failure_of_object
from proxy.providers.gemini.signatures import extra_content
from proxy.providers.gemini.usage import gemini_usage
from proxy.providers.lenient import decode_leniently
from proxy.providers.readers import WholeReader
from proxy.providers.stream_endings import malformed_answer


class GoogleCall(msgspec.Struct):
    """A function the model calls."""

    name: str = ""
    id: str = ""
    args: Raw = Raw()


class GooglePart(msgspec.Struct, rename="camel"):
    """A part of an answer."""

    text: str = ""
    thought: bool = False
    thought_signature: str = ""
    function_call: GoogleCall | None = None


class GoogleContent(msgspec.Struct):
    """The parts of a candidate."""

    parts: list[GooglePart] = []


class GoogleCandidate(GoogleFinish, rename="camel"):
    """One of the answers asked for."""

    content: GoogleContent | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class GoogleAnswer(msgspec.Struct, rename="camel"):
    """A whole answer, or a piece of a stream; ``error`` stands in its place."""

    response_id: str = ""
    candidates: list[GoogleCandidate] = []
    prompt_feedback: _Feedback | None = None
    usage_metadata: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    @property
    def is_blocked(self) -> bool:
        """True if the prompt was refused, so that there are no candidates."""
        return self.prompt_feedback is not None and self.prompt_feedback.block_reason is not None


_answers = msgspec.json.Decoder(GoogleAnswer)


def read_answer(data: bytes) -> GoogleAnswer:
    """Decode an answer or a piece of one, also where it is only nearly JSON."""
    return decode_leniently(_answers, data)


class CallNumbers:
    """Numbers the calls of each candidate, and names those that have no id."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def tool_call(self, candidate: int, part: GooglePart, tail: str) -> Json:
        """A call as chat has it, with its number; arguments byte for byte."""
        number = self._counts.get(candidate, 0)
        self._counts[candidate] = number + 1
        call = part.function_call or GoogleCall()
        arguments = bytes(call.args).decode(errors="replace") if is_given(call.args) else "{}"
        name = call.id or f"call_{tail}_{candidate}_{number}"
        written = {"index": number} | function_call(name, call.name, arguments)
        return written | extra_content(part.thought_signature)

    def calls(self, candidate: int) -> bool:
        """True if a candidate called a function."""
        return candidate in self._counts


def id_tail(response_id: str) -> str:
    """The part of generated ids that is the answer's own, in letters that all APIs take."""
    return sha256(response_id.encode(errors="replace")).hexdigest()[:16]


class WholeCompletion(WholeReader):
    """Turns the body of an answer into a chat completion's."""

    def __init__(self, reply: ChatReply) -> None:
        self._reply = reply

    def _translate(self, body: bytes) -> Json:
        answer = read_answer(body)
        if answer.error is not None:
            raise failure_of_object(answer.error)
        if not answer.candidates and not answer.is_blocked:
            raise malformed_answer()
        if (failure := failed_finish(answer.candidates)) is not None:
            raise failure
        usage = usage_object(gemini_usage(answer.usage_metadata or {}), has_writes=False)
        return self._reply.completion(answer.response_id, _choices(answer), usage=usage)


def _choices(answer: GoogleAnswer) -> list[Json]:
    if not answer.candidates:
        return [chat_choice({"role": "assistant", "content": None}, "content_filter")]
    numbers, tail = CallNumbers(), id_tail(answer.response_id)
    choices = []
    for candidate in answer.candidates:
        message = _message(candidate, numbers, tail)
        calls = numbers.calls(candidate.index)
        reason = finish_reason(candidate.finish_reason, calls=calls)
        choices.append(chat_choice(message, reason, candidate.index))
    return choices


def _message(candidate: GoogleCandidate, numbers: CallNumbers, tail: str) -> Json:
    """The assistant message of a candidate; the signature of its text stands beside it."""
    words, thoughts, signature = "", "", ""
    calls: list[Json] = []
    for part in candidate.content.parts if candidate.content is not None else ():
        if part.function_call is not None:
            call = numbers.tool_call(candidate.index, part, tail)
            calls.append({name: value for name, value in call.items() if name != "index"})
        elif part.thought:
            thoughts += part.text
        else:
            words += part.text
            signature = part.thought_signature or signature
    message = chat_message(words, calls, reasoning_content=thoughts)
    return message | extra_content(signature)
