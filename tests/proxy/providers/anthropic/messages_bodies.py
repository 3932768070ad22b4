"""Chat bodies as Messages bodies, and a check of the rules of the Messages API."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson

from proxy.catalog.entries import Route, Upstream
from proxy.providers.anthropic.request import messages_body

ALL_TRAITS = frozenset({"sampling", "forced_tools", "budget_thinking", "structured", "prefill"})


def route_with(traits: frozenset[str] = ALL_TRAITS, model: str = "claude") -> Route:
    upstream = Upstream(name="a", kind="anthropic", base_url="https://a.test/v1")
    return Route(name="a/claude", upstream=upstream, model=model, traits=traits)


def translate(body: dict[str, Any], route: Route | None = None) -> dict[str, Any]:
    request = messages_body(orjson.dumps(body), route or route_with())
    fields: dict[str, Any] = orjson.loads(request.body)
    return fields


def blocks_of(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from body.get("tools", [])
    yield from body.get("system", [])
    for message in body["messages"]:
        yield from message["content"]


def check(body: dict[str, Any]) -> None:
    """Raise an AssertionError unless the body keeps the rules of the Messages API."""
    assert isinstance(body["model"], str)
    assert body["max_tokens"] >= 1
    assert sum("cache_control" in block for block in blocks_of(body)) <= 4
    assert all(block["text"].strip() for block in blocks_of(body) if block.get("type") == "text")
    assert all(block["type"] == "text" for block in body.get("system", []))
    assert all(tool["input_schema"]["type"] for tool in body.get("tools", []))
    messages = body["messages"]
    assert messages[0]["role"] == "user"
    assert all(message["content"] for message in messages)
    ids = [block["id"] for block in blocks_of(body) if block.get("type") == "tool_use"]
    assert len(ids) == len(set(ids))
    for one, other in pairwise([*messages, {"role": "end", "content": []}]):
        check_pair(one, other)


def check_pair(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["role"] != other["role"]
    if one["role"] == "system":
        assert other["role"] in {"assistant", "end"}
    kinds = [block["type"] for block in other["content"]]
    results = [block for block in other["content"] if block["type"] == "tool_result"]
    assert kinds[: len(results)] == ["tool_result"] * len(results)
    calls = [block for block in one["content"] if block["type"] == "tool_use"]
    assert sorted(call["id"] for call in calls) == sorted(one["tool_use_id"] for one in results)
    assert all(isinstance(call["input"], dict) for call in calls)


def tool_call(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": arguments}}


def hello(**fields: Any) -> dict[str, Any]:
    return {"model": "public", "messages": [{"role": "user", "content": "hi"}], **fields}
