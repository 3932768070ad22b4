"""Calls on their way from route to route."""

from dataclasses import replace

from proxy.calls.deadlines import NoWatchdog
from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.calls.ports import CallContext
from proxy.calls.route_choice import RoutingDecision, requested_routes
from proxy.calls.route_sequence import RouteSequence
from proxy.catalog.catalog import Catalog
from proxy.records.timeline import Timeline
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, fake_dependencies
from tests.fakes.caller import FakeCaller
from tests.fakes.chaos import two_model_catalog
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import FakeTransport


def line(
    body: bytes = ASKED, *, catalog: Catalog | None = None, endpoint: str = "chat/completions"
) -> CallContext:
    dependencies, _ = fake_dependencies(FakeTransport([]), patience=RetryPolicy(retries=1))
    dependencies = replace(dependencies, catalog=catalog or two_model_catalog())
    return CallContext(
        call(body, endpoint),
        FakeCaller(),
        dependencies,
        NoWatchdog(),
        Timeline(ManualClock(1000.0)),
    )


def course(on: CallContext, decision: RoutingDecision | None = None) -> RouteSequence:
    return RouteSequence(
        on, decision or RoutingDecision(choices=requested_routes(on.call, on.deps.catalog))
    )
