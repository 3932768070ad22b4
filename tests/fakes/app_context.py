"""An app context of fakes, which records what it is told."""

from dataclasses import dataclass, field
from typing import Any

from prometheus_client.registry import Collector

from proxy.app_context import AppContext
from proxy.configuration import Prepare, read_policies
from proxy.settings import Settings
from proxy.store.store import Store
from slo.alert import Alert
from tests.fakes.admission_harness import NOW
from tests.fakes.call_dependencies import FakeEstimator, LoopTasks, catalog


@dataclass
class AppContextCalls:
    """Records calls of the app context."""

    published: list[Collector] = field(default_factory=list)
    said: list[Alert] = field(default_factory=list)
    followed: list[Prepare] = field(default_factory=list)

    def say(self, alert: Alert) -> bool:
        self.said.append(alert)
        return True


def fake_app_context(
    settings: Settings, opened: Store, heard: AppContextCalls, **fields: Any
) -> AppContext:
    return AppContext(
        **{
            "settings": settings,
            "policies": read_policies(settings),
            "catalog": catalog(),
            "opened": opened,
            "estimator": FakeEstimator(),
            "tasks": LoopTasks(),
            "now": lambda: NOW,
            "publish": heard.published.append,
            "alert": heard.say,
            "follow": heard.followed.append,
            **fields,
        }
    )
