"""Attempts as OpenTelemetry's spans and metrics, made and exported on a thread of their own.

::

    SERVER  POST /v1/chat/completions ─────────────────────────────  one a call
      CLIENT  chat big     ── failed ──                              one an attempt that was sent
      CLIENT  chat big                  ── answered ───────────────

Needs the extra ``otel``.
"""

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState
from opentelemetry.util.types import AttributeValue

from proxy.records.receipt import Outcome, Receipt, answering_model
from proxy.records.trace_context import TraceContext, span_id
from proxy.services.telemetry import genai_names as names
from proxy.services.telemetry.call_tracing import CallTracing, TracedAttempt, UpstreamSend

_log = logging.getLogger("thriftgate.tracing")

_BATCH: Final = 512
#: Seconds that a batch waits to become full.
_BATCH_S: Final = 1.0
#: Seconds that the end of the gateway waits for what is queued.
_STOP_S: Final = 5.0
#: Models whose metrics are told apart: callers write their names freely.
_MAX_MODELS: Final = 200
_OTHER: Final = "other"
_NS: Final = 1_000_000_000
_SERVER_FAULT: Final = 500
_SCOPE: Final = InstrumentationScope("thriftgate")

Attributes = dict[str, AttributeValue]


class OtlpExport:
    """Takes attempts that ended, and exports them."""

    def __init__(self, tracing: CallTracing, spans: SpanExporter, reader: MetricReader) -> None:
        self._tracing = tracing
        self._spans = spans
        self._resource = Resource.create({"service.name": "thriftgate"})
        self._provider = MeterProvider(
            [reader],
            self._resource,
            views=[
                View(instrument_name=name, aggregation=ExplicitBucketHistogramAggregation(bounds))
                for name, bounds in names.BUCKETS.items()
            ],
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("thriftgate")
        self._duration = meter.create_histogram(names.OPERATION_DURATION, "s")
        self._tokens = meter.create_histogram(names.TOKEN_USAGE, "{token}")
        self._first_chunk = meter.create_histogram(names.OPERATION_FIRST_CHUNK, "s")
        self._models: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Export what is queued, for a few seconds at most; blocks."""
        try:
            self._tracing.ended.put(None, timeout=_STOP_S)
        except queue.Full:
            return
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        is_over = False
        while not is_over:
            batch, is_over = self._next_batch()
            try:
                self._export(batch)
            except Exception:  # noqa: BLE001 - spans are lost, calls are not
                _log.exception("Spans could not be exported")
        self._spans.shutdown()
        self._provider.shutdown(int(_STOP_S * 1000))

    def _next_batch(self) -> tuple[list[TracedAttempt], bool]:
        """Attempts that wait, and True after the last."""
        waiting, batch = self._tracing.ended, list[TracedAttempt]()
        first = waiting.get()
        while first is not None:
            batch.append(first)
            if len(batch) >= _BATCH:
                return batch, False
            try:
                first = waiting.get(timeout=_BATCH_S)
            except queue.Empty:
                return batch, False
        return batch, True

    def _export(self, batch: Sequence[TracedAttempt]) -> None:
        spans = [span for attempt in batch for span in self._spans_of(attempt)]
        for attempt in batch:
            if attempt.sent is not None:
                self._record(attempt.sent, attempt.receipt)
        if spans:
            self._spans.export(spans)

    def _spans_of(self, attempt: TracedAttempt) -> Iterator[ReadableSpan]:
        """The spans of an attempt: its own, where it was sent, and the call's after the last."""
        context, receipt = attempt.context, attempt.receipt
        if not context.is_sampled:
            return
        if attempt.sent is not None:
            yield self._span(
                context,
                receipt,
                name=f"{names.operation_name(receipt.endpoint)} {receipt.model}".rstrip(),
                kind=SpanKind.CLIENT,
                began=attempt.sent.at,
                attributes=_client_attributes(attempt.sent, receipt),
            )
        if receipt.final:
            yield self._span(
                context,
                receipt,
                name=f"/v1/{receipt.endpoint}",
                kind=SpanKind.SERVER,
                began=receipt.started,
                attributes=_server_attributes(receipt),
            )

    def _span(
        self,
        context: TraceContext,
        receipt: Receipt,
        *,
        name: str,
        kind: SpanKind,
        began: float,
        attributes: Attributes,
    ) -> ReadableSpan:
        call = span_id(receipt.call_id)
        is_call = kind is SpanKind.SERVER
        own = call if is_call else span_id(receipt.call_id, receipt.attempt)
        parent = context.span_id if is_call else call
        return ReadableSpan(
            name=name,
            context=_span_context(context, own, is_remote=False),
            parent=_span_context(context, parent, is_remote=is_call) if parent else None,
            resource=self._resource,
            attributes=attributes,
            kind=kind,
            status=_status(receipt, is_call=is_call),
            start_time=round(began * _NS),
            end_time=round(max(receipt.started + receipt.duration, began) * _NS),
            instrumentation_scope=_SCOPE,
        )

    def _record(self, sent_attempt: UpstreamSend, receipt: Receipt) -> None:
        """Count an attempt in the metrics."""
        labels = _common_attributes(sent_attempt, receipt)
        for name in (names.REQUEST_MODEL, names.RESPONSE_MODEL):
            labels[name] = self._model_label(str(labels[name]))
        failed = {names.ERROR_TYPE: receipt.error or str(receipt.outcome)}
        is_failed = receipt.outcome in {Outcome.FAILED, Outcome.BROKEN}
        seconds = max(receipt.started + receipt.duration - sent_attempt.at, 0.0)
        self._duration.record(seconds, labels | failed if is_failed else labels)
        if (first := _first_chunk_s(sent_attempt, receipt)) is not None:
            self._first_chunk.record(first, labels)
        if receipt.usage is not None:
            self._record_tokens(self._tokens, receipt, labels)

    def _record_tokens(self, tokens: Histogram, receipt: Receipt, labels: Attributes) -> None:
        usage = receipt.usage
        if usage is not None:
            tokens.record(usage.prompt_tokens, {**labels, names.TOKEN_TYPE: "input"})
            tokens.record(usage.generated_tokens, {**labels, names.TOKEN_TYPE: "output"})

    def _model_label(self, model: str) -> str:
        if model not in self._models and len(self._models) >= _MAX_MODELS:
            return _OTHER
        self._models.add(model)
        return model


def _common_attributes(sent_attempt: UpstreamSend, receipt: Receipt) -> Attributes:
    attributes: Attributes = {
        names.OPERATION_NAME: names.operation_name(receipt.endpoint),
        names.PROVIDER_NAME: names.provider_name(sent_attempt.host, sent_attempt.upstream),
        names.REQUEST_MODEL: receipt.model,
        names.RESPONSE_MODEL: answering_model(receipt.route, receipt.model),
        names.SERVER_ADDRESS: sent_attempt.host,
    }
    if sent_attempt.port is not None:
        attributes[names.SERVER_PORT] = sent_attempt.port
    return attributes


def _client_attributes(sent_attempt: UpstreamSend, receipt: Receipt) -> Attributes:
    attributes = _common_attributes(sent_attempt, receipt) | {
        names.CALL_ID: receipt.call_id,
        names.ATTEMPT: receipt.attempt,
        names.ROUTE: receipt.route,
        names.OUTCOME: str(receipt.outcome),
    }
    optional = {
        names.RESPONSE_ID: receipt.upstream_id,
        names.REROUTE_REASON: receipt.reroute_reason,
        names.CACHE_MISS: receipt.miss,
        names.ERROR_TYPE: receipt.error,
    }
    attributes |= {name: value for name, value in optional.items() if value}
    if receipt.status:
        attributes[names.HTTP_STATUS] = receipt.status
    if receipt.cost_nanos is not None:
        attributes[names.COST_USD] = receipt.cost_nanos / 1e9
    if (first := _first_chunk_s(sent_attempt, receipt)) is not None:
        attributes[names.TIME_TO_FIRST_CHUNK] = first
    return attributes | _usage_attributes(receipt)


def _usage_attributes(receipt: Receipt) -> Attributes:
    usage = receipt.usage
    if usage is None:
        return {}
    return {
        names.INPUT_TOKENS: usage.prompt_tokens,
        names.OUTPUT_TOKENS: usage.generated_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning,
    }


def _server_attributes(receipt: Receipt) -> Attributes:
    attributes: Attributes = {
        names.URL_PATH: f"/v1/{receipt.endpoint}",
        names.HTTP_STATUS: receipt.status,
        names.CALL_ID: receipt.call_id,
        names.TEAM: receipt.team,
        names.FEATURE: receipt.feature,
        names.OUTCOME: str(receipt.outcome),
    }
    if receipt.error:
        attributes[names.ERROR_TYPE] = receipt.error
    return attributes


def _first_chunk_s(sent_attempt: UpstreamSend, receipt: Receipt) -> float | None:
    """Seconds from sending to the first content of a stream; None where it had none."""
    if not receipt.streamed or receipt.ttft is None:
        return None
    return max(receipt.started + receipt.ttft - sent_attempt.at, 0.0)


def _status(receipt: Receipt, *, is_call: bool) -> Status:
    """An error where the upstream failed; for the call, where it is no fault of the caller's."""
    is_failed = receipt.outcome in {Outcome.FAILED, Outcome.BROKEN}
    if is_call and receipt.outcome is not Outcome.BROKEN:
        is_failed = receipt.status >= _SERVER_FAULT
    return Status(StatusCode.ERROR, receipt.error) if is_failed else Status(StatusCode.UNSET)


def _span_context(context: TraceContext, span: str, *, is_remote: bool) -> SpanContext:
    state = TraceState.from_header([context.state]) if context.state else TraceState()
    return SpanContext(
        int(context.trace_id, 16), int(span, 16), is_remote, TraceFlags(context.flags), state
    )
