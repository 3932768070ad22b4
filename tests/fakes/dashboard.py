"""The whole dashboard, pages and API, over a real store, before people of every role."""

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import urlencode

import msgspec
from fastapi import FastAPI
from starlette.routing import Mount

from compaction.policy import CompactionMode
from dashboards.access import Role
from proxy.app_context import AppContext
from proxy.catalog.catalog import Catalog
from proxy.configuration import Snapshot, read_snapshot
from proxy.errors import OperatorError
from proxy.pages.access.known_browsers import KnownBrowsers
from proxy.pages.access.sessions import AdminSessions
from proxy.pages.access.sign_in import PageAccess
from proxy.pages.access.sign_in_methods import SignInMethods
from proxy.pages.app import add_admin_pages, add_error_handlers, key_authentication
from proxy.pages.operation_pages import Operations
from proxy.pages.people_pages import AccessResources
from proxy.pages.resources.alert_sinks import AlertSinksResource
from proxy.pages.resources.alerts import AlertsResource
from proxy.pages.resources.api import API_PATH, api_app
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.resources.budgets.key_limits import KeyLimitReader
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.callers.key_usage import own_usage_routers
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.pages.resources.fast_path_switches import FastPathSwitchesResource
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.resources.ledger.features import FeaturesResource
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.resources.models import ModelsResource
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.resources.policies.disabled_routes import DisabledRoutesResource
from proxy.pages.resources.policies.stored_policies import StoredPoliciesResource
from proxy.pages.resources.report_deliveries import ReportDeliveriesResource
from proxy.pages.resources.report_sending import ReportSending
from proxy.pages.store_questions import StoreQuestions
from proxy.reloading import Overlays, Reloader
from proxy.services.budgets.setup import BudgetOverlay
from proxy.services.catalog_overlay import CatalogOverlay, DisabledRoutesOverlay
from proxy.services.fast_path.setup import SwitchOverlay
from proxy.services.policy_overlay import PolicyOverlay
from proxy.settings import Settings
from proxy.store.ports import BudgetStore
from proxy.store.redis.local_budget_store import LocalBudgetStore
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.sql.access.users import UserRecord
from proxy.store.sql.views.fast_path import FastPathRules
from proxy.store.store import Store
from tests.fakes.admin_api import PATIENCE_S
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope
from tests.fakes.board import NOW, FakeBoard
from tests.fakes.call_dependencies import LoopTasks

OWN_TEAM: Final = "acme"
#: The policies file of the gateway.
POLICIES: Final = """
[[budgets]]
name = "in-the-file"
scope = "organization"
unit = "usd"
window = "month"
limit = "500"
"""


@dataclass(frozen=True)
class PageEndpoint:
    """A method of a path, as the app has it."""

    method: str
    path: str

    @property
    def is_page(self) -> bool:
        return not self.path.startswith(API_PATH)

    @property
    def is_safe(self) -> bool:
        return self.method in {"GET", "HEAD"}


@dataclass
class Dashboard:
    """Pages and API of one gateway, whose people are named after their roles.

    Attributes:
        more_policies: Follow the usual policies in its file.
        counters: Those of the budgets.
    """

    store: Store
    folder: Path
    board: FakeBoard = field(default_factory=FakeBoard)
    more_policies: str = ""
    counters: BudgetStore = field(default_factory=LocalBudgetStore)

    def __post_init__(self) -> None:
        self._loop = asyncio.Runner()  # one for all requests, as in a gateway
        ask, store = StoreQuestions(self.store, PATIENCE_S), self.store
        methods = SignInMethods(
            store.users, ask, None, (self.now, self.now), KnownBrowsers(store.secret)
        )
        self.access = PageAccess(AdminSessions(store.sessions, ask, self.now), methods)
        policies = self.folder / "policies.toml"
        policies.write_text(POLICIES + self.more_policies, encoding="utf8")
        settings = Settings(folder=self.folder, policies=policies)
        snapshot = read_snapshot(settings)
        self.reloader = reloader = Reloader(settings, snapshot, self.now, overlays(store))
        objectives = ObjectivesResource(self.board, store, ask, self.now)
        operations = Operations(
            objectives=objectives,
            events=EventsResource(store, ask, objectives, self.now),
            budgets=BudgetsResource(self.board, store, ask, self.now),
            stored_budgets=StoredBudgetsResource(store, ask, reloader, settings, self.now),
            scheduled_reports=ReportDeliveriesResource(store, ask, reloader, settings, self.now),
            report_sending=ReportSending(store, reloader, settings, self._record, self.now),
            alert_sinks=AlertSinksResource(reloader, self._record, self.now),
            alerts=AlertsResource(
                self.board, store, ask, lambda: reloader.snapshot.policies, self.now
            ),
            features=FeaturesResource(store, ask, CompactionMode.OFF, self.now),
            fast_path_switches=FastPathSwitchesResource(store, reloader, self.now),
            disabled_routes=DisabledRoutesResource(store, ask, reloader, self.now),
            policies=StoredPoliciesResource(store, ask, reloader, settings, self.now),
            models=ModelsResource(self._catalog, lambda _: "", self.folder, self.now),
            configuration=ConfigurationResource(
                settings, reloader, (list, reloader.notes), self._record, ask, self.now
            ),
        )
        ledger = self._ledger(ask)
        people = AccessResources.of(store, ask, self.access, operations.stored_budgets, self.now)
        self.app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
        self.app.include_router(self.access.router())
        self._include_own_usage()
        add_admin_pages(self.app, self.access, (self.board, operations, ledger, people), self.now)
        routers = (*operations.routers(), *ledger.routers(), *people.routers())
        self.api = api_app(self.access.viewer, routers, self._add_handlers)
        self.app.mount(API_PATH, self.api)
        self._add_handlers(self.app)
        self.own = store.teams.create(OWN_TEAM, now=NOW).id
        self.other = store.teams.create("other", now=NOW).id
        self.people = {role: self.add_person(role.value, role, self.own) for role in Role}
        self.cookies = {role: self.cookie(person) for role, person in self.people.items()}

    def _ledger(self, ask: StoreQuestions) -> LedgerResources:
        reloader = self.reloader
        ledger = LedgerResources.of(
            self.store,
            (ask, LoopTasks()),
            self._catalog,
            lambda: reloader.snapshot.policies.objectives,
            self.now,
        )
        ledger.fast_path.rules = lambda: FastPathRules.of(reloader.snapshot.policies)
        return ledger

    def _include_own_usage(self) -> None:
        around = cast("AppContext", SimpleNamespace(opened=self.store, now=self.now))
        limits = KeyLimitReader(
            lambda: self.reloader.snapshot.policies.budgets, self.counters, self.now
        )
        for routes in own_usage_routers(
            self.store,
            StoreQuestions(self.store, PATIENCE_S),
            self.access.viewer,
            key_authentication(around),
            limits.read,
            (self.now, self.now),
        ):
            self.app.include_router(routes)

    def close(self) -> None:
        self.access.methods.passwords.close()
        self._loop.close()

    def now(self) -> float:
        return NOW

    def refuse_snapshots(self) -> None:
        """Has the gateway adopt no change from now on."""

        async def refuse(_snapshot: Snapshot) -> Callable[[], None]:
            raise OperatorError("no room for it")

        self.reloader.follow(refuse)

    def _catalog(self) -> Catalog:
        return self.reloader.snapshot.catalog

    def add_person(self, name: str, role: Role, *teams: str) -> UserRecord:
        return self.store.users.create(name, role, teams, now=NOW)

    def cookie(self, person: UserRecord) -> str:
        """The cookie of a new session of a person."""
        session = self._loop.run(self.access.sessions.begin(person, person.id, "link", "Firefox"))
        return f"thriftgate_admin={session}"

    def ask(
        self,
        method: str,
        path: str,
        *,
        cookie: str = "",
        document: Any = None,
        **headers: str | None,
    ) -> AsgiConnection:
        """Ask by a browser of ours; a dict is sent as a form to pages and as JSON to the API."""
        is_api = path.startswith(API_PATH)
        kind = "application/json" if is_api else "application/x-www-form-urlencoded"
        body = b""
        if document is not None:
            body = msgspec.json.encode(document) if is_api else urlencode(document).encode()
        all_headers: dict[str, str | None] = {
            "authorization": "",
            "host": "gateway:8080",
            "cookie": cookie,
            "content-type": kind,
            "sec-fetch-site": "same-origin",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = {name: value for name, value in all_headers.items() if value is not None}
        path, _, query = path.partition("?")
        connection = AsgiConnection([body])
        return self._loop.run(answer_of_app(self.app, scope(path, method, head, query), connection))

    def ask_as(self, role: Role, method: str, path: str, document: Any = None) -> AsgiConnection:
        return self.ask(method, path, cookie=self.cookies[role], document=document)

    def endpoints(self) -> Iterator[PageEndpoint]:
        """Every method of every route of the app, so that a new one is among them."""
        yield from _endpoints(self.app, "")

    def _add_handlers(self, app: FastAPI) -> None:
        add_error_handlers(app, lambda: "call_1")

    async def _record(self, change: AuditedChange) -> None:
        self.store.audit.append(change, NOW)


def overlays(store: Store) -> Overlays:
    """Overlays of all that people set on pages."""
    return Overlays(
        [
            BudgetOverlay(store.budgets),
            CatalogOverlay(store.policies),
            PolicyOverlay(store.policies),
            SwitchOverlay(store.fast_path_switches),
            DisabledRoutesOverlay(store.policies, lambda: NOW),
        ]
    )


def _endpoints(router: Any, prefix: str) -> Iterator[PageEndpoint]:
    for route in router.routes:
        if isinstance(route, Mount):
            inner = getattr(route.app, "_app", route.app)
            yield from _endpoints(inner, prefix + route.path)
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from _endpoints(included, prefix)
        else:
            for method in sorted(route.methods - {"HEAD"}):
                yield PageEndpoint(method, prefix + route.path)


def fill_path(path: str, **values: str) -> str:
    """A path whose parameters are replaced; an unknown one by ``x``."""
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: values.get(match[1], "x"), path)


def new_cookie(answer: AsgiConnection) -> str:
    """The cookie that an answer sets, as a browser sends it."""
    (cookie,) = SimpleCookie(answer.headers["set-cookie"]).values()
    return f"{cookie.key}={cookie.value}"
