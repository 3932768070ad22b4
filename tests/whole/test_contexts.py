"""Texts stored at the gateway and pages beside it, named in calls, over HTTP."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from proxy.tools.simulator.server import serving
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import PRICE, GatewayFixture
from tests.whole.test_body_fields import ANSWER

CATALOG = f"""
[upstreams.echo]
base_url = "{{url}}"

[[models]]
id = "echo"
upstream = "echo"
price = {PRICE}
"""
HANDBOOK = 'Be "kind".\n' + 700 * "Answer within a day. "


@pytest.fixture
def echo() -> Iterator[tuple[str, list[bytes], list[str]]]:
    """The URL of an upstream that serves a page too; the bodies, and tags of pages it was sent."""
    bodies: list[bytes] = []
    tags: list[str] = []

    async def answer(request: Request) -> Response:
        bodies.append(await request.body())
        return JSONResponse(ANSWER)

    async def page(request: Request) -> Response:
        tags.append(request.headers.get("if-none-match", ""))
        if tags[-1]:
            return Response(status_code=304)
        return PlainTextResponse("Refunds take a week.", headers={"etag": '"1"'})

    routes = [
        Route("/chat/completions", answer, methods=["POST"]),
        Route("/guides/refunds", page),
    ]

    def make() -> AbstractAsyncContextManager[str]:
        return serving(Starlette(routes=routes))

    with running_in_thread(make) as url:
        yield url.removesuffix("/v1"), bodies, tags


@pytest.fixture
def gateway(
    echo: tuple[str, list[bytes], list[str]],
    start_gateway: Callable[..., GatewayFixture],
    tmp_path: Path,
) -> GatewayFixture:
    url, _, _ = echo
    policies = tmp_path / "policies.toml"
    table = f'name = "a"\nfetch = ["{url}/guides/"]\ndeadline_ms = 5000\n'
    policies.write_text(f"[[contexts]]\n{table}")
    return start_gateway(more_catalog=CATALOG.replace("{url}", url), policies=policies)


def ask(gateway: GatewayFixture, method: str, path: str, **request: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {request.pop('key', gateway.key)}"}
    return httpx.request(
        method, f"{gateway.url}/{path}", headers=headers, timeout=30, trust_env=False, **request
    )


def chat(gateway: GatewayFixture, *content: dict[str, Any], **request: Any) -> httpx.Response:
    messages = [{"role": "system", "content": list(content)}, {"role": "user", "content": "Hi"}]
    body = {"model": "echo", "messages": messages}
    return ask(gateway, "POST", "chat/completions", json=body, **request)


def test_call_that_names_texts_and_pages_reaches_the_upstream_as_one_that_holds_them(
    echo: tuple[str, list[bytes], list[str]], gateway: GatewayFixture
) -> None:
    url, bodies, tags = echo
    stored = ask(gateway, "PUT", "thriftgate/contexts/handbook", content=HANDBOOK.encode())
    assert stored.status_code == 200, stored.text
    assert (stored.json()["version"], stored.json()["bytes"]) == (1, len(HANDBOOK))
    reference = {"type": "thriftgate.ref", "name": "handbook", "version": 1}
    page = {"type": "thriftgate.fetch", "url": f"{url}/guides/refunds"}

    for _ in range(2):
        assert chat(gateway, reference, page).status_code == 200
    texts = (HANDBOOK, "Refunds take a week.")
    assert chat(gateway, *({"type": "text", "text": text} for text in texts)).status_code == 200

    by_name, again, plain = bodies
    assert by_name == again == plain
    assert tags == ["", '"1"']


def test_missing_page_is_left_out_and_the_answer_and_receipt_say_so(
    echo: tuple[str, list[bytes], list[str]], gateway: GatewayFixture
) -> None:
    url, bodies, _ = echo
    page = {"type": "thriftgate.fetch", "url": f"{url}/guides/none"}

    answer = chat(gateway, {"type": "text", "text": "Own."}, page)

    note = f"left out {url}/guides/none: late or failed"
    assert note in answer.headers["x-thriftgate-notes"]
    assert b"thriftgate" not in bodies[0]
    (receipt,) = gateway.receipts(answer.headers["x-request-id"])
    assert note in receipt.notes


def test_refused_reference_has_a_receipt_and_reaches_no_upstream(
    echo: tuple[str, list[bytes], list[str]], gateway: GatewayFixture
) -> None:
    _, bodies, _ = echo
    unknown = chat(gateway, {"type": "thriftgate.ref", "name": "none", "version": 1})
    outside = chat(gateway, {"type": "thriftgate.fetch", "url": "http://127.0.0.1:1/x"})

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_context")
    assert (outside.status_code, outside.json()["error"]["code"]) == (403, "context_not_allowed")
    assert bodies == []
    (receipt,) = gateway.receipts(unknown.headers["x-request-id"])
    assert (receipt.outcome, receipt.error) == ("refused", "unknown_context")


def test_texts_are_listed_read_and_deleted_by_their_team(gateway: GatewayFixture) -> None:
    path = "thriftgate/contexts/handbook"
    for text in ("one", "two"):
        ask(gateway, "PUT", path, content=text.encode())

    listed = ask(gateway, "GET", "thriftgate/contexts").json()["data"]
    assert [version["version"] for version in listed] == [2, 1]
    assert ask(gateway, "GET", f"{path}/1").text == "one"
    assert ask(gateway, "DELETE", f"{path}/1").json() == {"deleted": 1}
    assert ask(gateway, "GET", f"{path}/1").status_code == 404
    assert ask(gateway, "DELETE", path).json() == {"deleted": 1}
    assert ask(gateway, "DELETE", path).status_code == 404


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("a" * 65, b"x", 400, "invalid_context"),
        ("handbook", b"", 400, "invalid_context"),
        ("handbook", b"\xff", 400, "invalid_context"),
        ("handbook", b"a\0b", 400, "invalid_context"),
        ("handbook", b"x" * (1024 * 1024 + 1), 413, "context_too_large"),
    ],
)
def test_text_that_cannot_be_kept_is_refused(
    gateway: GatewayFixture, name: str, content: bytes, status: int, code: str
) -> None:
    answer = ask(gateway, "PUT", f"thriftgate/contexts/{name}", content=content)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_without_a_policy_nothing_is_stored(start_gateway: Callable[..., GatewayFixture]) -> None:
    answer = ask(start_gateway(), "PUT", "thriftgate/contexts/handbook", content=b"x")

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "contexts_disabled")


def test_unknown_key_stores_nothing(gateway: GatewayFixture) -> None:
    answer = ask(gateway, "PUT", "thriftgate/contexts/handbook", content=b"x", key="tg-none")

    assert answer.status_code == 401
