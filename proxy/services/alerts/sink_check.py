"""Sends a test alert, so that people see whether a sink takes messages."""

from proxy.services.alerts.configured_sinks import ConfiguredSink
from proxy.services.alerts.http_sender import DeliveryFailure, HttpSender
from proxy.store.sql.outbox import OutboxMessage
from slo.alert import Alert
from slo.alerting import AlertGroup


async def send_test_alert(
    outlet: ConfiguredSink, origin: str, now: float
) -> DeliveryFailure | None:
    """Sends a test as an alert that goes on: None, or why the sink did not take it.

    It goes on, because it is then that people have to be reached, and is as urgent as an alert has
    to be for the sink to be told of it. No alert for its end follows.

    Args:
        origin: Where it comes from, such as ``somebody ran ...``, for its receiver.
        now: Seconds since the epoch.
    """
    alert = Alert(
        kind="test",
        subject="thriftgate",
        severity=outlet.sink.at_least,
        title="TEST: this is a test of Thriftgate's alerts, and nothing is wrong",
        fix=f"Nothing: {origin}.",
        began=now,
    )
    letter = OutboxMessage(alert=alert, sink=outlet.sink.name)
    async with HttpSender() as http:
        return await http.send(outlet.url, outlet.message(AlertGroup((alert,)), [letter], now))
