"""The context that parts of a running gateway share: settings, store, clock, tasks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from prometheus_client.registry import Collector

from proxy.calls.metering.replica_costs import ReplicaCosts
from proxy.calls.ports import BackgroundTaskGroup, Estimator
from proxy.calls.route_health import RouteHealthRegistry
from proxy.catalog.catalog import Catalog
from proxy.configuration import Prepare
from proxy.engines.profiles import EngineProfile
from proxy.settings import Settings
from proxy.store.store import Store
from slo.alert import Alert
from slo.policies.file import Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext:
    """Everything that parts of the gateway share; one for the process.

    Attributes:
        settings: Settings of the gateway.
        policies: Policies at start.
        catalog: The models there are when it starts.
        engines: Profiles of self-hosted engines at start, by name.
        estimator: Counts prompts.
        tasks: Task group of the background work.
        now: Seconds since the epoch.
        compare_clock: Takes the time of a clock that is shared with other processes.
        publish: Takes what Prometheus is to read.
        alert: Takes alerts; False if too many wait already.
        replica_costs: The cost of replicas that are paid by the hour.
        follow: Takes what gets a room ready for another catalog and other policies.
    """

    settings: Settings
    policies: Policies
    catalog: Catalog
    engines: Mapping[str, EngineProfile] = field(default_factory=dict)
    opened: Store
    estimator: Estimator
    tasks: BackgroundTaskGroup
    now: Callable[[], float]
    compare_clock: Callable[[float], None] = lambda _: None
    publish: Callable[[Collector], None]
    alert: Callable[[Alert], bool]
    route_health: RouteHealthRegistry = field(default_factory=RouteHealthRegistry)
    replica_costs: ReplicaCosts = field(default_factory=ReplicaCosts)
    follow: Callable[[Prepare], object]
