import logging
from itertools import count

import pytest
from fastapi import FastAPI

from proxy.errors import ProxyError, Unready
from proxy.pages.answers import add_error_handlers
from tests.fakes.asgi import Connection, asked, refusal, scope
from tests.fakes.clock import played


def app(error: Exception | None = None) -> FastAPI:
    """One page, which fails."""
    pages, ids = FastAPI(), count()
    add_error_handlers(pages, lambda: f"call_{next(ids)}")

    @pages.get("/page")
    async def page() -> None:
        if error is not None:
            raise error

    return pages


def told(error: ProxyError) -> Connection:
    return played(asked(app(error), scope("/page", "GET")))


def test_a_page_refuses_as_a_call_does():
    busy = told(Unready("Later.", code="busy", retry_after=1.5))

    assert (busy.status, refusal(busy)["code"]) == (503, "busy")
    assert busy.headers == {
        "x-request-id": "call_0",
        "content-type": "application/json",
        "content-length": str(len(busy.body)),
        "retry-after": "2",
        "retry-after-ms": "1500",
    }


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [("/page", "POST", 405, "method_not_allowed"), ("/none", "GET", 404, "not_found")],
)
def test_what_is_not_there_is_not_worth_a_retry(path, method, status, code):
    lost = played(asked(app(), scope(path, method)))

    assert (lost.status, refusal(lost)["code"]) == (status, code)
    assert lost.headers["x-should-retry"] == "false"
    assert lost.headers.get("allow") == ("GET" if status == 405 else None)


def test_our_own_mistake_is_a_bare_500_and_is_raised_to_be_logged(caplog):
    connection = Connection()
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        played(asked(app(RuntimeError("at /etc/secret")), scope("/page", "GET"), connection))

    assert (connection.status, refusal(connection)["code"]) == (500, "internal_error")
    assert b"secret" not in connection.body
    assert "call_0" in caplog.text
