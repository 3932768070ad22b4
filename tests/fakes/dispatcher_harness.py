"""A dispatcher of alerts with a sink that answers as it is told, and a clock set by hand."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from proxy.services.alerts.configured_sinks import ConfiguredSink
from proxy.services.alerts.dispatch import AlertDispatcher
from proxy.services.alerts.http_sender import HttpSender
from proxy.store.store import Store
from slo.alert import Alert, Severity
from slo.alerting import GROUPING_SLOT_S
from tests.fakes.alerts import NOW, an_outlet, json_of_post
from tests.fakes.server import ReceivedAnswer, Server, Step, head, serving

OK = [head(200, "content-length: 0")]
FAILS = [head(500, "content-length: 0")]
REFUSES = [head(400, "content-length: 0")]


@dataclass
class DispatcherHarness:
    """A dispatcher with a sink that is told of notes, too, and a clock that is set by hand."""

    store: Store
    server: Server
    post: HttpSender
    now: float = NOW

    def __post_init__(self) -> None:
        self.alerts = self.beside(an_outlet(self.server, at_least=Severity.NOTE))

    def beside(self, *outlets: ConfiguredSink, salt: str = "") -> AlertDispatcher:
        """Another dispatcher on the same store."""
        return AlertDispatcher(outlets, self.store, lambda: self.now, post=self.post, salt=salt)

    async def after(self, seconds: float, alerts: AlertDispatcher | None = None) -> None:
        """Send all alerts that are due by then."""
        self.now += seconds
        alerts = alerts or self.alerts
        await alerts.maintain()
        await alerts.notify_all()

    async def said(self, *alerts: Alert) -> None:
        """Say alerts, and wait until they are told."""
        for alert in alerts:
            assert self.alerts.enqueue(alert)
        await self.after(0)
        await self.after(GROUPING_SLOT_S)

    @property
    def got(self) -> list[ReceivedAnswer]:
        return self.server.got

    def subjects(self) -> list[list[str]]:
        """Of each post, whom its alerts are about."""
        bodies = [json_of_post(got) for got in self.got]
        return [[alert["subject"] for alert in body["data"]["alerts"]] for body in bodies]

    def types(self) -> list[str]:
        return [json_of_post(got)["type"].removeprefix("thriftgate.alerts.") for got in self.got]


@asynccontextmanager
async def dispatcher_harness(
    store: Store, answers: Sequence[Sequence[Step]]
) -> AsyncIterator[DispatcherHarness]:
    """A room whose sink answers so."""
    async with serving(*answers) as server, HttpSender(2) as post:
        yield DispatcherHarness(store, server, post)
