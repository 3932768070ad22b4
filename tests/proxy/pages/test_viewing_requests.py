"""Requests of browsers: whose they are, and their forms."""

import asyncio
from contextlib import nullcontext

import pytest
from fastapi import Request

from proxy.errors import CallerError
from proxy.pages.viewing import check_source, form_fields
from tests.fakes.asgi import AsgiConnection, scope


def a_request(headers: dict[str, str], sent: bytes = b"") -> Request:
    all_headers = {"host": "gateway:8080", **headers}
    return Request(scope("/admin/keys", "POST", all_headers), AsgiConnection([sent]).receive)


SOURCES = [
    ({"sec-fetch-site": "same-origin"}, True),
    ({"sec-fetch-site": "none"}, True),
    ({"sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "cross-site"}, False),
    ({"sec-fetch-site": "cross-site", "origin": "http://gateway:8080"}, False),
    ({"sec-fetch-site": "same-origin", "origin": "null"}, True),
    ({"origin": "http://gateway:8080"}, True),
    ({"origin": "https://gateway:8080"}, True),
    ({"origin": "http://gateway"}, False),
    ({"origin": "http://evil.example"}, False),
    ({"origin": "http://[gateway:8080"}, False),
    ({"origin": "null"}, False),
    ({}, True),
]


@pytest.mark.parametrize(("headers", "is_taken"), SOURCES)
def test_only_requests_of_our_own_pages_and_of_programs_are_taken(
    headers: dict[str, str],
    is_taken: bool,  # noqa: FBT001 - a row
) -> None:
    with nullcontext() if is_taken else pytest.raises(CallerError, match="Another site"):
        check_source(a_request(headers))


def test_fields_of_a_form_are_read_with_empty_ones() -> None:
    fields = asyncio.run(form_fields(a_request({}, b"name=+web+app+&feature=")))

    assert fields == {"name": "web app", "feature": ""}
