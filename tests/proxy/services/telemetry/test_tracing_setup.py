"""Traces of a running gateway, at a collector that speaks OTLP over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.exported_metrics import POLICIES
from tests.fakes.free_port import free_port
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import VirtualGateway, question, virtual_gateway

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


class Collector:
    """Bodies that arrived, by path.

    Attributes:
        url: Its base URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: dict[str, list[bytes]] = {"/v1/traces": [], "/v1/metrics": []}

    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(b) for b in self.bodies["/v1/traces"]]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> set[str]:
        requests = [ExportMetricsServiceRequest.FromString(b) for b in self.bodies["/v1/metrics"]]
        return {
            metric.name
            for request in requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def collector() -> Iterator[Collector]:
    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                raise AssertionError("unexpected coding")
            sink.bodies[self.path].append(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    sink = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield sink
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def traceparents(world: VirtualGateway) -> list[str]:
    return [exchange.headers.get("traceparent", "") for exchange in world.lab.exchanges]


async def _two_calls(folder: Path, endpoint: str) -> tuple[list[str], list[int]]:
    async with virtual_gateway(folder, POLICIES, otlp_endpoint=endpoint) as world:
        one = await world.http_caller.ask(question(1), PARENT)
        two = await world.http_caller.ask(question(2, cue="503"), PARENT)
        return traceparents(world), [one.status, two.status]


def test_a_callers_trace_goes_on_at_the_upstream_and_its_spans_at_the_collector(tmp_path):
    with collector() as collected:
        upstream, _ = run_in_virtual_time(lambda: _two_calls(tmp_path, collected.url))

    spans = collected.spans()
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    calls = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    attempts = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert [span.parent_span_id.hex() for span in calls] == [SPAN, SPAN]
    assert {span.parent_span_id for span in attempts} <= {span.span_id for span in calls}
    assert upstream == [f"00-{TRACE}-{span.span_id.hex()}-01" for span in attempts]
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)
    assert collected.metrics() >= {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}


def test_without_an_endpoint_nothing_is_traced_or_passed_on(tmp_path):
    upstream, statuses = run_in_virtual_time(lambda: _two_calls(tmp_path, ""))

    assert set(upstream) == {""}
    assert statuses[0] == 200


@pytest.mark.slow
def test_a_collector_that_is_down_changes_no_answer(tmp_path, caplog):
    gone = f"http://127.0.0.1:{free_port()}"

    _, statuses = run_in_virtual_time(lambda: _two_calls(tmp_path, gone))

    assert statuses[0] == 200
