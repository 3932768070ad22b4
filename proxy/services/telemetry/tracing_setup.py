"""Sets up tracing in a running gateway: off, or to an OTLP endpoint."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.errors import OperatorError
from proxy.services.telemetry.call_tracing import CallTracing

if TYPE_CHECKING:
    from proxy.services.telemetry.otlp_export import OtlpExport

_METRICS_INTERVAL_MS: Final = 15_000
#: Seconds that the endpoint has for one export.
_TIMEOUT_S: Final = 5.0
_ABSENT: Final = (
    "THRIFTGATE_OTLP_ENDPOINT is set, and OpenTelemetry's SDK is not installed. Install it:"
    " pip install 'thriftgate[otel]'."
)


class DroppedSpans(Collector):
    """Counts attempts whose spans were not recorded."""

    def __init__(self, tracing: CallTracing) -> None:
        self._tracing = tracing

    def collect(self) -> Iterator[Metric]:
        """The count, as Prometheus' own type."""
        yield CounterMetricFamily(
            "thriftgate_spans_dropped",
            "Attempts whose spans were dropped, as the OTLP endpoint was too slow",
            value=self._tracing.dropped,
        )


@asynccontextmanager
async def running_tracing(context: AppContext) -> AsyncIterator[CallTracing | None]:
    """Exports traces and metrics of calls; yields None where no endpoint is set.

    Raises:
        OperatorError: If the extra ``otel`` is not installed.
    """
    endpoint = context.settings.otlp_endpoint
    if not endpoint:
        yield None
        return
    tracing = CallTracing(context.now)
    export = _open_export(tracing, endpoint.rstrip("/"))
    context.publish(DroppedSpans(tracing))
    export.start()
    try:
        yield tracing
    finally:
        await asyncio.to_thread(export.stop)


def _open_export(tracing: CallTracing, endpoint: str) -> "OtlpExport":
    """The export to an endpoint; OpenTelemetry is imported where it is used alone.

    Raises:
        OperatorError: If it is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - optional
            OTLPMetricExporter,
        )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - optional
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - optional
            PeriodicExportingMetricReader,
        )

        from proxy.services.telemetry.otlp_export import OtlpExport  # noqa: PLC0415 - optional
    except ImportError as error:
        raise OperatorError(_ABSENT) from error
    spans = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=_TIMEOUT_S)
    metrics = OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics", timeout=_TIMEOUT_S)
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=_METRICS_INTERVAL_MS)
    return OtlpExport(tracing, spans, reader)
