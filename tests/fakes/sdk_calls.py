"""Calls that tests make through an SDK, and what is known of them afterwards."""

import base64
from collections.abc import Callable
from typing import Any

import orjson
from pydantic import BaseModel

from proxy.records.receipt import Receipt
from proxy.tools.simulator.upstream import SimulatedExchange
from slo.usage import Usage
from tests.fakes.gateway_fixture import GatewayFixture

MODELS = ("gpt-lab", "claude-lab")
WEATHER = {
    "name": "weather",
    "description": "The weather of a place.",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
        "additionalProperties": False,
    },
}
CLOCK = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": WEATHER},
    {"type": "function", "function": CLOCK},
]
TOOLS: list[Any] = [{"type": "function", **WEATHER}, {"type": "function", **CLOCK}]
PIXEL = base64.b64encode(
    base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
).decode()
PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF").decode()


class City(BaseModel):
    name: str
    people: int
    is_capital: bool


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def chat(model: str, text: str, **fields: Any) -> Callable[[Any], Any]:
    """A question of one message."""
    return lambda c: c.chat.completions.create(model=model, messages=user(text), **fields)


def last(gateway: GatewayFixture) -> SimulatedExchange:
    """The last request that the upstream saw."""
    return gateway.lab.exchanges[-1]


def last_body(gateway: GatewayFixture) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(last(gateway).body)
    return body


def receipt_of(gateway: GatewayFixture, call_id: str) -> Receipt:
    (receipt,) = gateway.receipts(call_id)
    return receipt


def usage_of(receipt: Receipt) -> Usage:
    assert receipt.usage is not None
    return receipt.usage


def dollars(receipt: Receipt) -> float:
    assert receipt.cost_nanos is not None
    return receipt.cost_nanos / 1e9
