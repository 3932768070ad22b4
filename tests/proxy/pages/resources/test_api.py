"""The API behind the pages: whom it answers, and how it describes itself."""

import asyncio
import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request

from dashboards.access import Role, Viewer
from proxy.pages.app import add_error_handlers
from proxy.pages.resources.api import API_PATH, api_app
from proxy.pages.viewing import SignedIn
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope

ANN = Viewer(name="ann", role=Role.VIEWER, own_teams=frozenset({"team_b", "team_a"}))


async def ann(request: Request) -> Viewer | None:
    return ANN if request.headers.get("cookie") == "ann" else None


def app() -> FastAPI:
    routes = APIRouter()

    @routes.post("/things")
    async def change(viewer: SignedIn) -> dict[str, str]:
        return {"by": viewer.name}

    made = FastAPI()

    def handlers(api: FastAPI) -> None:
        add_error_handlers(api, lambda: "call_1")

    made.mount(API_PATH, api_app(ann, [routes], handlers))
    return made


def got(path: str, method: str = "GET", **headers: str) -> tuple[int, Any, dict[str, str]]:
    all_headers = {"host": "gateway", **{k.replace("_", "-"): v for k, v in headers.items()}}
    answer = asyncio.run(
        answer_of_app(app(), scope(path, method, all_headers), AsgiConnection([b""]))
    )
    return answer.status, json.loads(answer.body), answer.headers


def test_api_answers_every_signed_in_person() -> None:
    status, body, headers = got("/api/v1/session", cookie="ann")

    assert (status, body) == (200, {"name": "ann", "role": "viewer", "teams": ["team_a", "team_b"]})
    assert headers["cache-control"] == "no-store"


def test_a_callers_key_opens_nothing() -> None:
    status, body, _ = got("/api/v1/session", authorization="Bearer tg-1")

    assert (status, body["error"]["code"]) == (401, "not_signed_in")


def test_a_request_of_another_site_changes_no_resource() -> None:
    status, body, _ = got("/api/v1/things", "POST", cookie="ann", sec_fetch_site="cross-site")
    assert (status, body["error"]["code"]) == (403, "cross_site")

    status, body, _ = got("/api/v1/things", "POST", cookie="ann", sec_fetch_site="same-origin")
    assert (status, body) == (200, {"by": "ann"})


def test_api_is_described_by_openapi() -> None:
    status, body, _ = got("/api/v1/openapi.json")

    assert status == 200
    assert "/session" in body["paths"]
