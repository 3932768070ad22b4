"""An app of one router, and who may see its pages."""

import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request

from proxy.api.refused_keys import unauthenticated_error
from proxy.api.request import request_token
from proxy.errors import ProxyError
from proxy.records.call import Key
from tests.fakes.asgi import answer_of_app, scope
from tests.fakes.call_dependencies import KEY
from tests.fakes.clock import run_in_instant_time


async def authenticate(request: Request) -> Key:
    """Tests' one key is good."""
    if request_token(request.scope) != "tg-1":
        raise unauthenticated_error("tg-unknown")
    return KEY


def page(
    router: APIRouter, path: str, method: str = "GET", **head: Any
) -> tuple[int, Any, dict[str, str]]:
    """A page's status, body and headers; its JSON is read.

    Raises:
        ProxyError: If the router refuses; the app tells it in the envelope.
    """
    app = FastAPI()
    app.include_router(router)
    app.add_exception_handler(ProxyError, _raise_error)
    answer = run_in_instant_time(answer_of_app(app, scope(path, method, **head)))
    is_json = answer.headers["content-type"] == "application/json"
    return answer.status, json.loads(answer.body) if is_json else answer.body, answer.headers


async def _raise_error(_request: Request, error: Exception) -> Any:
    raise error
