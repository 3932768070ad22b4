"""``/api/v1/alerts/sinks``: the sinks that alerts are sent to, and test alerts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dashboards.access import Action
from proxy.errors import CallerError
from proxy.pages.resources.api import Resource
from proxy.pages.resources.report_sending import DeliveryResult, delivery_result
from proxy.pages.viewing import Clock, RecordChange, SignedIn, check_allowed, route
from proxy.reloading import Reloader
from proxy.services.alerts.configured_sinks import (
    ConfiguredSink,
    configured_sinks,
    environment_variables,
    send_test_alert,
)
from proxy.settings import upstream_keys
from proxy.store.sql.access.audit_log import AuditedChange
from slo.policies.sinks import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkView:
    """A sink of the policies file.

    Attributes:
        kind: ``webhook``, ``slack``, ``alertmanager`` or ``apprise``.
        at_least: The least urgent of the alerts that it is sent.
        problem: Reason that it gets none, in a sentence; "" where it can be reached.
    """

    name: str
    kind: str
    at_least: str
    problem: str


@dataclass(eq=False)
class AlertSinksResource(Resource):
    """Sinks of alerts, as administrators see and test them."""

    tag = "budgets"

    _reloader: Reloader
    _record: RecordChange
    _now: Clock
    _underway: set[str] = field(default_factory=set)

    @route("GET", "/alerts/sinks", name="list_sinks")
    async def list(self, viewer: SignedIn) -> Sequence[SinkView]:
        """Sinks of alerts, and why some get none."""
        check_allowed(viewer, Action.SEND_MESSAGES)
        return [_view(sink) for sink in self._reloader.snapshot.policies.sinks]

    @route("POST", "/alerts/sinks/{name}/test", name="test_sink")
    async def test(self, viewer: SignedIn, name: str) -> DeliveryResult:
        """Sends a sink a test alert that begins with TEST."""
        check_allowed(viewer, Action.SEND_MESSAGES)
        sink = next((s for s in self._reloader.snapshot.policies.sinks if s.name == name), None)
        if sink is None:
            raise CallerError(
                "There is no sink of this name in the policies file.",
                code="unknown_sink",
                status=404,
            )
        reachable, lacking = _reachable_sinks(sink)
        if not reachable:
            raise CallerError(" ".join(lacking), code="not_configured")
        if name in self._underway:
            raise CallerError(f"{name} is being tested.", code="already_sending", status=409)
        self._underway.add(name)
        try:
            origin = f"{viewer.name} sent it from the dashboard"
            failure = await send_test_alert(reachable[0], origin, self._now())
        finally:
            self._underway.discard(name)
        result = delivery_result(name, failure)
        await self._record(
            AuditedChange(
                who=viewer.name,
                action="test sink",
                subject=name,
                after={"worked": not result.failure},
            )
        )
        return result


def _reachable_sinks(sink: Sink) -> tuple[Sequence[ConfiguredSink], Sequence[str]]:
    """The sink where it can be spoken to, else the reason that it cannot."""
    return configured_sinks([sink], upstream_keys(environment_variables([sink])))


def _view(sink: Sink) -> SinkView:
    _, lacking = _reachable_sinks(sink)
    return SinkView(
        name=sink.name,
        kind=sink.kind.value,
        at_least=sink.at_least.value,
        problem=" ".join(lacking),
    )
