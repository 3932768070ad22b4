"""Renders the pages' errors in the same envelope as those of calls."""

import logging
from collections.abc import Callable
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from proxy.api.passthrough import error_headers, internal_error
from proxy.errors import NotFound, ProxyError, envelope

_log = logging.getLogger("thriftgate.pages")


def add_error_handlers(pages: FastAPI, request_id: Callable[[], str]) -> None:
    """Have all errors of these pages told in the envelope.

    Args:
        pages: The app.
        request_id: Makes the id of a request whose answer is an error.
    """

    async def answer_proxy_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ProxyError)  # noqa: S101 - registered for no other
        return _error_response(error, request_id())

    async def answer_http_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
        answer = _error_response(_not_found_error(error), request_id())
        answer.status_code = error.status_code
        for name, value in (error.headers or {}).items():
            answer.headers[name] = value
        return answer

    async def answer_bug(request: Request, _error: Exception) -> Response:
        failed = request_id()
        _log.error("Our own mistake on %s, page %s; traceback follows", failed, request.url.path)
        return _error_response(internal_error(failed), failed)

    pages.add_exception_handler(ProxyError, answer_proxy_error)
    pages.add_exception_handler(HTTPException, answer_http_error)
    pages.add_exception_handler(Exception, answer_bug)  # It is raised again, and so logged.


def _not_found_error(error: HTTPException) -> NotFound:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return NotFound("This path takes other methods; see `allow`.", code="method_not_allowed")
    return NotFound("There is nothing at this path. Calls go to /v1/….", code="not_found")


def _error_response(error: ProxyError, request_id: str) -> Response:
    body = envelope(error)
    answer = Response(body, status_code=error.status)
    answer.raw_headers = error_headers(error, request_id.encode(), len(body))
    return answer
