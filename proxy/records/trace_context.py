"""W3C trace context: the trace that a caller's request is part of; pure.

Source: W3C, Trace Context, level 1 (2021-11).
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_SAMPLED: Final = 1
#: Characters that all who pass ``tracestate`` on have to keep.
_MAX_STATE_CHARS: Final = 512


class TraceContext(msgspec.Struct, frozen=True):
    """A place in a trace.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits; "" where the trace begins here.
        flags: Its flags, from 0 to 255.
        state: Entries of vendors, to be passed on; "" for none.
    """

    trace_id: str
    span_id: str = ""
    flags: int = _SAMPLED
    state: str = ""

    @property
    def is_sampled(self) -> bool:
        """True if the trace's first service wants its spans recorded."""
        return bool(self.flags & _SAMPLED)


def read_trace_context(traceparent: str, tracestate: str = "") -> TraceContext | None:
    """The caller's place in its trace; None where its headers name none.

    Args:
        tracestate: The header of that name; it is dropped where it is too long or unprintable.
    """
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    is_invalid = version == "ff" or trace_id == _NO_TRACE or span_id == _NO_SPAN
    if is_invalid or (version == "00" and more):
        return None
    is_kept = len(tracestate) <= _MAX_STATE_CHARS and tracestate.isascii()
    state = tracestate.strip() if is_kept and tracestate.isprintable() else ""
    return TraceContext(trace_id, span_id, int(flags, 16), state)


def new_trace(call_id: str) -> TraceContext:
    """The trace that begins with a call: of its id, so that whoever knows one finds the other."""
    return TraceContext(_digits(call_id, 16))


def span_id(call_id: str, attempt: int | None = None) -> str:
    """The id of a call's span, or of one of its attempts': 16 hex digits."""
    return _digits(call_id if attempt is None else f"{call_id}/{attempt}", 8)


def trace_headers(context: TraceContext, span: str) -> tuple[tuple[str, str], ...]:
    """The headers by which a request goes on with a trace."""
    parent = f"00-{context.trace_id}-{span}-{context.flags & _SAMPLED:02x}"
    state = (("tracestate", context.state),) if context.state else ()
    return (("traceparent", parent), *state)


def _digits(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
