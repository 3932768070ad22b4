"""Requests of browsers: whose they are, and their forms."""

import asyncio

import pytest
from fastapi import Request

from proxy.errors import CallerError
from proxy.pages.viewing import check_source, form_fields
from tests.fakes.asgi import AsgiConnection, scope


def a_request(headers: dict[str, str], sent: bytes = b"") -> Request:
    all_headers = {"host": "gateway:8080", **headers}
    return Request(scope("/admin/keys", "POST", all_headers), AsgiConnection([sent]).receive)


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
     {"origin": "http://evil.example"}, {"origin": "null"}],
)  # fmt: skip
def test_another_sites_request_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(CallerError, match="Another site"):
        check_source(a_request(headers))


@pytest.mark.parametrize(
    "headers", [{}, {"sec-fetch-site": "same-origin"}, {"origin": "http://gateway:8080"}]
)
def test_our_own_pages_and_programs_are_taken(headers: dict[str, str]) -> None:
    check_source(a_request(headers))


def test_fields_of_a_form_are_read_with_empty_ones() -> None:
    fields = asyncio.run(form_fields(a_request({}, b"name=+web+app+&feature=")))

    assert fields == {"name": "web app", "feature": ""}
