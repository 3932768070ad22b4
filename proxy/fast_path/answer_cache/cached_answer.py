"""An answer as it is kept, and the rules by which one is; pure.

What is kept is what the caller got, byte for byte: the upstream's headers are not, as they tell of
one call's limits and ids.
"""

import re
from typing import Final

import msgspec

#: Endings of an answer that came to its end by itself, in every API.
#: Sources: OpenAI API reference, chat, completions and responses; Anthropic API reference, messages
#: (2026-11).
_WHOLE_ENDINGS: Final = frozenset({b"stop", b"end_turn", b"stop_sequence", b"completed"})
#: Those of an answer that calls a tool.
_TOOL_ENDINGS: Final = frozenset({b"tool_calls", b"function_call", b"tool_use"})
#: Within a text, quotes are escaped: only a field of the answer itself looks like this.
_ENDING: Final = re.compile(
    rb'"(?:finish_reason|stop_reason)"\s*:\s*"([a-z_]+)"'
    rb'|"status"\s*:\s*"(completed|incomplete|failed|cancelled)"'
)
_TOOL_CALL: Final = re.compile(
    rb'"tool_calls"\s*:\s*\[\s*\{|"function_call"\s*:\s*\{|"type"\s*:\s*"[a-z_]*(?:_call|tool_use)"'
)
#: Answers from this length on take long to look through.
LARGE_ANSWER_BYTES: Final = 128 * 1024
#: Bytes that an answer takes beside its body.
_ENTRY_BYTES: Final = 1_000
#: Format of what is stored; what has another one is not read.
_VERSION: Final = 1


class CachedAnswer(msgspec.Struct, frozen=True, array_like=True):
    """An answer that may be given again.

    Attributes:
        started: Arrival of the call that it was given to, in seconds since the epoch.
        model: The public name of the model that answered.
        notes: Changes of the gateway to the call, in short sentences.
        closing_at: Place in a stream's body where the account of a call goes; -1 in what is none.
        cost_nanos: Its cost in 1e-9 US dollars; None where unknown.
        call_id: The call that it was given to first.
    """

    team: str
    feature: str
    key: str
    started: float
    status: int
    media: str
    model: str
    notes: tuple[str, ...]
    body: bytes
    closing_at: int
    cost_nanos: int | None
    call_id: str
    tags: tuple[str, ...] = ()
    version: int = _VERSION

    @property
    def is_whole(self) -> bool:
        """True if it is no stream."""
        return self.closing_at < 0

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes."""
        return len(self.body) + _ENTRY_BYTES


_decode = msgspec.msgpack.Decoder(CachedAnswer).decode


def encode_answer(answer: CachedAnswer) -> bytes:
    """The answer as it is stored."""
    return msgspec.msgpack.encode(answer)


def decode_answer(stored: bytes) -> CachedAnswer | None:
    """The answer that was stored; None where another version stored it, or it is none."""
    try:
        answer = _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return answer if answer.version == _VERSION else None


def reason_not_kept(endpoint: str, body: bytes, *, keeps_tool_calls: bool) -> str:
    """The reason that an answer is not given again; "" where it may be.

    Args:
        body: All of it, as the caller got it.
        keeps_tool_calls: True if the feature declares that its answers may be given again.
    """
    if endpoint == "embeddings":
        return ""
    endings = {status or reason for reason, status in _ENDING.findall(body)}
    if not keeps_tool_calls and (_TOOL_CALL.search(body) or endings & _TOOL_ENDINGS):
        return "tool call"
    if endpoint == "responses" and b"completed" not in endings:
        return "unfinished"
    return "" if endings and endings <= _WHOLE_ENDINGS | _TOOL_ENDINGS else "unfinished"
