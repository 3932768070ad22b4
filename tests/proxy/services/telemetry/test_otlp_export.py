"""Attempts as spans and metrics, by the SDK's exporters in memory."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from proxy.calls.metering.settlement import AttemptInfo
from proxy.providers.port import PreparedRequest
from proxy.records.receipt import Outcome, Receipt
from proxy.services.telemetry.call_tracing import CallTracing
from proxy.services.telemetry.otlp_export import OtlpExport
from tests.fakes.call_dependencies import call, route
from tests.fakes.receipts import START, a_receipt

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
BODY = b'{"model": "m"}'
ASKED = PreparedRequest(method="POST", path="/chat/completions", headers={}, body=b"{}")


class Story:
    """A call from its arrival to its last receipt.

    Attributes:
        sent: The headers of each attempt's request.
    """

    def __init__(self, spans: InMemorySpanExporter | None = None, flags: str = "01") -> None:
        self.now = START + 0.1
        self.tracing = CallTracing(lambda: self.now)
        self.spans = spans or InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.export = OtlpExport(self.tracing, self.spans, self.reader)
        self.parent = f"00-{TRACE}-{SPAN}-{flags}".encode()
        self.sent: list[dict[str, str]] = []
        self.metrics: dict[str, Any] = {}

    def arrive(self, receipt: Receipt) -> None:
        self.tracing.begin(receipt.call_id, [(b"traceparent", self.parent), (b"x-other", b"1")])

    def attempt(self, receipt: Receipt) -> None:
        info = AttemptInfo(
            call=call(BODY, id=receipt.call_id), route=route(), number=receipt.attempt
        )
        self.sent.append(dict(self.tracing.propagate(info, ASKED).trace_headers))
        self.tracing.observe(receipt)

    def end(self) -> Sequence[ReadableSpan]:
        """The spans, in the order in which they were made."""
        self.export.start()
        data = self._metrics_at_stop()
        if data is not None:
            for metric in data.resource_metrics[0].scope_metrics[0].metrics:
                self.metrics[metric.name] = list(metric.data.data_points)
        return self.spans.get_finished_spans()

    def _metrics_at_stop(self) -> Any:
        collected: list[Any] = []
        shutdown = self.export._provider.shutdown

        def read_first(*rest: Any) -> None:
            collected.append(self.reader.get_metrics_data())
            shutdown(*rest)

        self.export._provider.shutdown = read_first  # type: ignore[assignment, method-assign]
        self.export.stop()
        return collected[0]


def test_a_call_is_a_span_and_each_of_its_attempts_a_child_in_the_callers_trace():
    story = Story()
    failed = a_receipt(1, final=False, outcome=Outcome.FAILED, status=503, error="overloaded")
    answered = a_receipt(1, attempt=1)
    story.arrive(failed)
    story.attempt(failed)
    story.now += 0.5
    story.attempt(answered)

    first, second, whole = story.end()

    assert whole.kind is SpanKind.SERVER
    assert f"{whole.context.trace_id:032x}" == TRACE
    assert whole.parent is not None
    assert f"{whole.parent.span_id:016x}" == SPAN
    assert whole.parent.is_remote
    for span, headers in ((first, story.sent[0]), (second, story.sent[1])):
        assert span.kind is SpanKind.CLIENT
        assert span.parent is not None
        assert span.parent.span_id == whole.context.span_id
        assert headers["traceparent"] == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert (first.status.status_code, whole.status.status_code) == (
        StatusCode.ERROR,
        StatusCode.UNSET,
    )
    assert second.start_time is not None
    assert first.start_time is not None
    assert second.start_time - first.start_time == pytest.approx(5e8, abs=1000)


def test_an_attempt_has_the_attributes_of_the_conventions():
    story = Story()
    receipt = a_receipt(1)
    story.arrive(receipt)
    story.attempt(receipt)

    client, server = story.end()

    attributes = dict(client.attributes or {})
    assert client.name == "chat model-1"
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.request.model"] == "model-1"
    assert attributes["gen_ai.usage.input_tokens"] == 101 + 1024 + 7
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 1024
    assert attributes["gen_ai.usage.cache_write.input_tokens"] == 7
    assert attributes["gen_ai.usage.output_tokens"] == 23
    assert attributes["gen_ai.usage.reasoning.output_tokens"] == 3
    assert attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(
        0.25 - 0.1 + 1, abs=1e-3
    )
    assert attributes["thriftgate.cost_usd"] == pytest.approx(0.004, abs=1e-6)
    assert dict(server.attributes or {})["http.response.status_code"] == 200


def test_metrics_count_duration_tokens_and_first_chunk():
    story = Story()
    receipt = a_receipt(1)
    story.arrive(receipt)
    story.attempt(receipt)
    story.end()

    (duration,) = story.metrics["gen_ai.client.operation.duration"]
    assert duration.explicit_bounds[0] == 0.01
    assert duration.count == 1
    assert story.metrics["gen_ai.client.operation.time_to_first_chunk"][0].count == 1
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in story.metrics["gen_ai.client.token.usage"]
    }
    assert tokens == {"input": 101 + 1024 + 7, "output": 23}


def test_models_that_callers_make_up_share_one_series():
    story = Story()
    for n in range(300):
        receipt = a_receipt(1, call_id=f"call_{n}", model=f"made-up-{n}", route="lab/*")
        story.arrive(receipt)
        story.attempt(receipt)
    story.end()

    assert len(story.metrics["gen_ai.client.operation.duration"]) <= 201


def test_a_call_that_is_sent_nowhere_has_no_span_of_an_attempt():
    story = Story()
    refused = a_receipt(1, outcome=Outcome.REFUSED, status=429, error="budget", ttft=None)
    story.arrive(refused)
    story.tracing.observe(refused)

    (whole,) = story.end()

    assert whole.kind is SpanKind.SERVER
    assert whole.status.status_code is StatusCode.UNSET
    assert dict(whole.attributes or {})["error.type"] == "budget"


def test_a_caller_that_does_not_sample_gets_its_context_passed_on_and_no_span():
    story = Story(flags="00")
    receipt = a_receipt(1)
    story.arrive(receipt)
    story.attempt(receipt)

    assert story.sent[0]["traceparent"].endswith("-00")
    assert story.end() == ()
    assert story.metrics["gen_ai.client.operation.duration"][0].count == 1


def test_an_exporter_that_fails_ends_nothing(caplog):
    class Failing(InMemorySpanExporter):
        fails = True

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if self.fails:
                self.fails = False
                raise RuntimeError("gone")
            return super().export(spans)

    story = Story(Failing())
    for n in range(600):
        receipt = a_receipt(1, call_id=f"call_{n}")
        story.arrive(receipt)
        story.attempt(receipt)

    assert len(story.end()) == 2 * (600 - 512)
    assert "could not be exported" in caplog.text
