"""An upstream with odd fields, declared in its table alone."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from proxy.tools.simulator.server import serving
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import GatewayFixture

CATALOG = """
[upstreams.odd]
base_url = "{url}"

[upstreams.odd.body_fields]
add = {{ safe_prompt = true, provider = {{ order = ["a", "b"] }} }}
rename = {{ max_tokens = "max_output", max_completion_tokens = "max_output" }}
drop = ["store"]

[[models]]
id = "odd-lab"
upstream = "odd"
price = {{ input = "1.00", output = "4.00" }}
"""
CEILING = """
[[ceilings]]
name = "small"
limit = "0.004"
"""
USAGE = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "odd-lab",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello."},
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}


@pytest.fixture
def odd_upstream() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The base URL of an upstream, and the bodies that it was sent."""
    bodies: list[dict[str, Any]] = []

    async def answer(request: Request) -> JSONResponse:
        bodies.append(await request.json())
        return JSONResponse(ANSWER)

    app = Starlette(routes=[Route("/chat/completions", answer, methods=["POST"])])

    def make() -> AbstractAsyncContextManager[str]:
        return serving(app)

    with running_in_thread(make) as url:
        yield url.removesuffix("/v1"), bodies


def test_declared_body_fields_reach_the_upstream_from_chat_and_messages_calls(
    odd_upstream: tuple[str, list[dict[str, Any]]],
    start_gateway: Callable[..., GatewayFixture],
    tmp_path: Path,
) -> None:
    url, bodies = odd_upstream
    policies = tmp_path / "policies.toml"
    policies.write_text(CEILING)
    gateway = start_gateway(more_catalog=CATALOG.format(url=url), policies=policies)
    messages = [{"role": "user", "content": "Good morning."}]
    chat = {"store": True, "max_completion_tokens": 9, "safe_prompt": False}

    dear = {"max_tokens": 4000}
    for path, fields in (
        ("chat/completions", chat),
        ("messages", {"max_tokens": 9}),
        ("chat/completions", dear),
    ):
        answer = httpx.post(
            f"{gateway.url}/{path}",
            json={"model": "odd-lab", "messages": messages, **fields},
            headers={"authorization": f"Bearer {gateway.key}"},
            timeout=30,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text

    for body in bodies:
        assert body["safe_prompt"] is True
        assert body["provider"] == {"order": ["a", "b"]}
        assert not {"max_tokens", "max_completion_tokens", "store"} & set(body)
    first, second, clamped = (body["max_output"] for body in bodies)
    assert first == second == 9
    assert 256 <= clamped < 1000
