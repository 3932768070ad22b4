"""Traces of calls, from their arrival to their receipts.

The event loop only makes ids and queues them; the exporter's thread makes spans and metrics.
"""

import logging
import queue
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from proxy.calls.metering.settlement import AttemptInfo
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Receipt
from proxy.records.trace_context import (
    TraceContext,
    new_trace,
    read_trace_context,
    span_id,
    trace_headers,
)

_log = logging.getLogger("thriftgate.tracing")

#: Calls whose traces are remembered; those that are refused without a receipt are never ended.
_MAX_CALLS: Final = 65_536
#: Calls that ended, of which a superseded attempt may end later.
_MAX_FINISHED: Final = 1_024
#: Attempts that may wait for the exporter.
MAX_QUEUED: Final = 8_192


class UpstreamSend(NamedTuple):
    """An attempt's destination and time.

    Attributes:
        at: When it was sent, in seconds since the epoch.
        port: The port there; None for the usual one.
    """

    at: float
    upstream: str
    host: str
    port: int | None


class TracedAttempt(NamedTuple):
    """An attempt that ended, in its trace.

    Attributes:
        sent: None where it was sent nowhere.
    """

    context: TraceContext
    sent: UpstreamSend | None
    receipt: Receipt


class _OpenCall(NamedTuple):
    """A call under way: its trace, and its attempts that were sent."""

    context: TraceContext
    sent: dict[int, UpstreamSend]


class CallTracing:
    """Follows calls through their attempts.

    Attributes:
        ended: Attempts that wait for the exporter.
        dropped: Attempts that were not recorded, as too many waited.
    """

    def __init__(self, now: Callable[[], float], max_queued: int = MAX_QUEUED) -> None:
        self._now = now
        self._calls: OrderedDict[str, _OpenCall] = OrderedDict()
        self._finished: OrderedDict[str, _OpenCall] = OrderedDict()
        self.ended: queue.Queue[TracedAttempt | None] = queue.Queue(max_queued)
        self.dropped = 0

    def begin(self, call_id: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take the trace that a request's headers name, or begin one.

        Args:
            headers: The request's, names in lower case.
        """
        trace_fields = {
            name: value.decode("latin-1") for name, value in headers if name in _HEADERS
        }
        context = None
        if parent := trace_fields.get(b"traceparent"):
            context = read_trace_context(parent, trace_fields.get(b"tracestate", ""))
        self._open(call_id, context or new_trace(call_id))

    def propagate(self, attempt: AttemptInfo, prepared: PreparedRequest) -> PreparedRequest:
        """The request of an attempt that is sent now, with its place in the trace."""
        call_id = attempt.call.id
        call = self._calls.get(call_id) or self._open(call_id, new_trace(call_id))
        if attempt.route is not None:
            upstream = attempt.route.upstream
            host, port = _address(upstream.base_url)
            call.sent[attempt.number] = UpstreamSend(self._now(), upstream.name, host, port)
        headers = trace_headers(call.context, span_id(call_id, attempt.number))
        return msgspec.structs.replace(prepared, trace_headers=headers)

    def observe(self, receipt: Receipt) -> None:
        """Queue an attempt that ended; it is dropped where too many wait."""
        call_id = receipt.call_id
        call = self._calls.get(call_id) or self._finished.get(call_id)
        if call is None:
            call = _OpenCall(new_trace(call_id), {})
        if receipt.final and self._calls.pop(call_id, None) is not None:
            _keep(self._finished, call_id, call, _MAX_FINISHED)
        try:
            self.ended.put_nowait(
                TracedAttempt(call.context, call.sent.pop(receipt.attempt, None), receipt)
            )
        except queue.Full:
            if not self.dropped:
                _log.warning("The OTLP endpoint is too slow: some spans are dropped from now on")
            self.dropped += 1

    def _open(self, call_id: str, context: TraceContext) -> _OpenCall:
        call = _OpenCall(context, {})
        _keep(self._calls, call_id, call, _MAX_CALLS)
        return call


def _keep(
    calls: OrderedDict[str, _OpenCall], call_id: str, call: _OpenCall, max_calls: int
) -> None:
    """Remember a call, and forget the oldest where there are too many."""
    calls[call_id] = call
    if len(calls) > max_calls:
        calls.popitem(last=False)


_HEADERS: Final = frozenset({b"traceparent", b"tracestate"})


def _address(url: str) -> tuple[str, int | None]:
    """The host and the port of a base URL, which the catalog has checked."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port
