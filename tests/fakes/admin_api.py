"""The API behind the pages over a store, asked by people of several roles."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request

from dashboards.access import Role, Viewer
from proxy.pages.app import add_error_handlers
from proxy.pages.resources.api import API_PATH, api_app
from proxy.pages.store_questions import StoreQuestions
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.store import Store
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope

#: The moment at which the API is asked, and the seconds of a day before it.
NOW: Final = 1_795_687_200.0  # 2026-11-26 10:00 UTC
DAY: Final = 86_400.0
#: Seconds that a question has; a busy machine is no failure of what is asked.
PATIENCE_S: Final = 60.0

ADMIN: Final = Viewer(name="root", role=Role.ADMIN)
FINANCE: Final = Viewer(name="fay", role=Role.FINANCE)


def of_team(*teams: str, role: Role = Role.VIEWER) -> Viewer:
    """A person of these teams."""
    return Viewer(name="ann", role=role, own_teams=frozenset(teams))


@dataclass
class AdminApi:
    """The API of some resources.

    Attributes:
        store: Its store.
        make: Makes the resources' routes of what asks the store.
    """

    store: Store
    make: Callable[[StoreQuestions], APIRouter]
    viewer: Viewer = field(default=ADMIN)

    def keep(self, *receipts: Any) -> None:
        """Put receipts into the ledger."""
        assert inserter(self.store._engine)(list(receipts)) is None

    def get(self, path: str, viewer: Viewer = ADMIN, /, **query: Any) -> tuple[int, Any]:
        """The status and the body of an answer."""
        answer = self.answer(path, viewer, **query)
        return answer.status, json.loads(answer.body)

    def answer(self, path: str, viewer: Viewer = ADMIN, /, **query: Any) -> AsgiConnection:
        """An answer, whatever its body is."""

        async def who(_request: Request) -> Viewer:
            return viewer

        async def run() -> AsgiConnection:
            app = FastAPI()

            def handlers(api: FastAPI) -> None:
                add_error_handlers(api, lambda: "call_1")

            routes = self.make(StoreQuestions(self.store, PATIENCE_S))
            app.mount(API_PATH, api_app(who, [routes], handlers))
            head = scope(API_PATH + path, "GET", {"host": "gateway"})
            head["query_string"] = urlencode(query, doseq=True).encode()
            return await answer_of_app(app, head, AsgiConnection([b""]))

        return asyncio.run(run())

    def ok(self, path: str, viewer: Viewer = ADMIN, /, **query: Any) -> Any:
        """The body of a good answer."""
        status, body = self.get(path, viewer, **query)
        assert status == 200, body
        return body
