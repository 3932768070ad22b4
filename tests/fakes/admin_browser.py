"""A browser before the admin pages of one gateway."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn, cast
from urllib.parse import urlencode
from weakref import finalize

from fastapi import FastAPI

from compaction.policy import CompactionMode
from proxy.configuration import Snapshot, read_catalog
from proxy.pages.app import add_admin_pages, add_error_handlers
from proxy.pages.operation_pages import Operations
from proxy.pages.people_pages import AccessResources
from proxy.pages.resources.alert_sinks import AlertSinksResource
from proxy.pages.resources.alerts import AlertsResource
from proxy.pages.resources.budgets.budget_counters import BudgetsResource
from proxy.pages.resources.budgets.stored_budgets import StoredBudgetsResource
from proxy.pages.resources.configuration import ConfigurationResource
from proxy.pages.resources.fast_path_switches import FastPathSwitchesResource
from proxy.pages.resources.ledger.events import EventsResource
from proxy.pages.resources.ledger.features import FeaturesResource
from proxy.pages.resources.ledger.ledger_resources import LedgerResources
from proxy.pages.resources.ledger.reports import CostReportsResource
from proxy.pages.resources.models import ModelsResource
from proxy.pages.resources.objectives import ObjectivesResource
from proxy.pages.resources.policies.disabled_routes import DisabledRoutesResource
from proxy.pages.resources.policies.stored_policies import StoredPoliciesResource
from proxy.pages.resources.report_deliveries import ReportDeliveriesResource
from proxy.pages.resources.report_sending import ReportSending
from proxy.pages.store_questions import StoreQuestions
from proxy.pages.viewing import RecordChange
from proxy.reloading import Reloader
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.store import Store
from slo.policies.file import Policies
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope
from tests.fakes.board import NOW, FakeBoard
from tests.fakes.call_dependencies import LoopTasks
from tests.fakes.clock import ManualClock
from tests.fakes.page_access import InMemoryAccess, page_access

TOKEN = "an-admin-token-of-24-chars"


class AwayStore:
    """A store whose database is away, and whose parts answer nothing."""

    def __getattr__(self, name: str) -> object:
        return object()

    async def ask(self, *_: object) -> NoReturn:
        raise StoreError("away")


NO_STORE = cast("Store", AwayStore())

NO_POLICIES = cast(
    "Reloader",
    SimpleNamespace(
        snapshot=Snapshot(read_catalog(Settings()), Policies()), file_budgets=frozenset()
    ),
)
NO_SINKS = AlertSinksResource(
    NO_POLICIES,
    cast("RecordChange", object()),
    lambda: NOW,
)


def operations(
    board: FakeBoard, store: Store = NO_STORE, folder: Path = Path("none")
) -> Operations:
    """Resources over a board and a store; without one, those of admins who change nothing."""
    ask, reloader = StoreQuestions(store), NO_POLICIES
    catalog = read_catalog(Settings())
    objectives = ObjectivesResource(board, store, ask, lambda: NOW)
    return Operations(
        objectives=objectives,
        events=EventsResource(store, ask, objectives, lambda: NOW),
        budgets=BudgetsResource(board, store, ask, lambda: NOW),
        stored_budgets=StoredBudgetsResource(store, ask, reloader, Settings(), lambda: NOW),
        scheduled_reports=ReportDeliveriesResource(store, ask, reloader, Settings(), lambda: NOW),
        report_sending=cast("ReportSending", object()),
        alert_sinks=NO_SINKS,
        alerts=AlertsResource(board, store, ask, Policies, lambda: NOW),
        features=FeaturesResource(store, ask, CompactionMode.OFF, lambda: NOW, 10_000_000),
        fast_path_switches=FastPathSwitchesResource(store, reloader, lambda: NOW),
        disabled_routes=DisabledRoutesResource(store, ask, reloader, lambda: NOW),
        policies=StoredPoliciesResource(store, ask, reloader, Settings(), lambda: NOW),
        models=ModelsResource(lambda: catalog, lambda _: "", folder, lambda: NOW),
        configuration=cast("ConfigurationResource", object()),
    )


class Browser:
    """Asks one gateway's pages, and keeps its cookie."""

    def __init__(
        self,
        board: FakeBoard | None = None,
        *,
        token: str = TOKEN,
        store: Store = NO_STORE,
        provider: str = "",
        folder: Path = Path("none"),
        reports: CostReportsResource | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()  # one for all requests, as in a gateway
        finalize(self, self._loop.close)
        self.board = board or FakeBoard()
        self.watch = ManualClock(5000.0)
        self.app = FastAPI(redirect_slashes=False)
        self.kept = InMemoryAccess()
        access = page_access(self.kept, token, self.watch, provider=provider)
        ask, catalog = StoreQuestions(store), read_catalog(Settings())
        ledger = LedgerResources.of(
            store, (ask, LoopTasks()), lambda: catalog, lambda: (), lambda: NOW
        )
        self.ledger = ledger = ledger if reports is None else replace(ledger, reports=reports)
        operated = operations(self.board, store, folder)
        people = AccessResources.of(store, ask, access, operated.stored_budgets, lambda: NOW)
        shown = (self.board, operated, ledger, people)
        self.app.include_router(access.router())
        add_admin_pages(self.app, access, shown, lambda: NOW)
        add_error_handlers(self.app, lambda: "call_1")
        self.cookie = ""
        self.known_cookie = ""
        self.address = "192.0.2.7"

    def get(self, path: str = "/objectives", **headers: str) -> AsgiConnection:
        return self._request("GET", path, b"", headers)

    def post(self, path: str, body: bytes = b"", **headers: str) -> AsgiConnection:
        return self._request("POST", path, body, headers)

    def sign_in(self, token: str = TOKEN, **headers: str) -> AsgiConnection:
        return self.post("/sign-in", urlencode({"token": token}).encode(), **headers)

    def _request(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> AsgiConnection:
        all_headers = {
            "authorization": "",
            "host": "gateway:8080",
            "cookie": "; ".join(filter(None, (self.cookie, self.known_cookie))),
            "content-type": "application/x-www-form-urlencoded" if body else "",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        path, _, query = path.partition("?")
        head = scope(f"/admin{path}", method, all_headers, query)
        head["client"] = (self.address, 1)
        answer = self._loop.run_until_complete(
            answer_of_app(self.app, head, AsgiConnection([body]))
        )
        for cookie in answer.cookies:
            if "thriftgate_browser=" in cookie:
                self.known_cookie = cookie
            else:
                self.cookie = cookie
        return answer
