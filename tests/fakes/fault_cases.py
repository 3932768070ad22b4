"""Plays each fault of an upstream: what a caller gets, and what the ledger holds."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import httpx
import orjson

from proxy.providers.sse import parse_events
from proxy.records.receipt import Receipt
from proxy.tools.simulator.fault_directives import NAMES
from proxy.tools.simulator.upstream import SimulatedExchange
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.plain_http import PLAIN

WIRES = {"openai": "gpt-lab", "anthropic": "claude-lab"}
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
#: Cues that mean something only with a value; the others stand alone.
VALUED = {"keepalives": ("keepalives", "keepalives=3")}
CUES = [
    *(cue for name in NAMES for cue in VALUED.get(name, (name,))),
    *(str(status) for status in STATUSES),
]
#: A caller who leaves: when, and what the upstream is told to do meanwhile.
LEAVES = {
    "leaves before head": "hang",
    "leaves before words": "keepalives",
    "leaves mid-stream": "stall=5",
}
PATIENCE: dict[str, Any] = {
    "first_byte_timeout": 4.0,
    "stall_timeout": 3.0,
    "retries": 0,
    "log_calls": False,
}
_AT_ONCE = 24
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}


@dataclass(frozen=True)
class FaultCase:
    """One call and what its upstream is told to do."""

    cue: str
    wire: str
    streamed: bool
    endpoint: str = "chat/completions"

    @property
    def mark(self) -> str:
        """Words that no other case says."""
        kind = "stream" if self.streamed else "json"
        return f"case {self.cue} of {self.wire} {kind} {self.endpoint}."

    def body(self) -> bytes:
        cue = LEAVES.get(self.cue, self.cue)
        text = f"{self.mark} Tell me of it. [[fault:{cue}]]"
        body: dict[str, Any] = {"model": WIRES[self.wire], "stream": self.streamed}
        if self.endpoint == "responses":
            body["input"] = text
            tools: list[dict[str, Any]] = [{"type": "function", **TOOL}]
        else:
            body["messages"] = [{"role": "user", "content": text}]
            tools = [{"type": "function", "function": TOOL}]
        if cue == "call":
            body["tools"] = tools
        return orjson.dumps(body)


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The result of a case.

    Attributes:
        got: The caller's side in a few words.
        said: The text it was given.
        body: The bytes it was given.
        receipts: What the ledger holds of the call.
        exchanges: What the upstream saw of it.
    """

    case: FaultCase
    got: str
    said: str
    body: bytes
    receipts: Sequence[Receipt]
    exchanges: Sequence[SimulatedExchange]

    @property
    def final(self) -> Receipt:
        (final,) = (receipt for receipt in self.receipts if receipt.final)
        return final

    @property
    def account(self) -> str:
        """True if the ledger's usage is what the upstream charged, counted here, or none."""
        if self.final.usage is None:
            return "none"
        if self.final.estimated:
            return "estimated"
        return "exact" if self.final.usage == self.exchanges[-1].usage else "WRONG"


def cases(endpoint: str = "chat/completions") -> list[FaultCase]:
    """All of them."""
    every = [FaultCase(c, w, s, endpoint) for c, w, s in product(CUES, WIRES, (False, True))]
    streams = {"leaves before words": True, "leaves mid-stream": True}
    return every + [
        FaultCase(cue, wire, streamed, endpoint)
        for cue, wire, streamed in product(LEAVES, WIRES, (False, True))
        if streams.get(cue, streamed) == streamed
    ]


def meet(gateway: GatewayFixture, chosen: Iterable[FaultCase]) -> list[CaseResult]:
    """Play the cases against a gateway, all at once; the ledger is asked once all are over."""
    return asyncio.run(_meet(gateway, list(chosen)))


async def _meet(gateway: GatewayFixture, chosen: list[FaultCase]) -> list[CaseResult]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        timeout=20, limits=limits, trust_env=False, verify=PLAIN
    ) as client:
        turns = asyncio.Semaphore(_AT_ONCE)
        played = await asyncio.gather(*(_play(client, turns, gateway, case) for case in chosen))
    by_mark = await asyncio.to_thread(_receipts, gateway, {case.mark for case in chosen})
    met = []
    for case, (answer, body) in zip(chosen, played, strict=True):
        exchanges = [
            exchange
            for exchange in list(gateway.lab.exchanges)
            if case.mark.encode() in exchange.body
        ]
        content = _said(body, case)
        receipts = by_mark[case.mark]
        met.append(
            CaseResult(
                case=case,
                got=answer,
                said=content,
                body=body,
                receipts=receipts,
                exchanges=exchanges,
            )
        )
    return met


async def _play(
    client: httpx.AsyncClient, turns: asyncio.Semaphore, gateway: GatewayFixture, case: FaultCase
) -> tuple[str, bytes]:
    """The caller's answer, in a few words and in bytes."""
    async with turns:
        return await _got(client, gateway, case)


async def _got(
    client: httpx.AsyncClient, gateway: GatewayFixture, case: FaultCase
) -> tuple[str, bytes]:
    received = bytearray()
    request = client.build_request(
        "POST",
        f"{gateway.url}/{case.endpoint}",
        content=case.body(),
        headers={
            "authorization": f"Bearer {gateway.key}",
            "content-type": "application/json",
            "x-thriftgate-feature": case.mark,
        },
    )
    try:
        answer = await _send(client, request, partial(_may_leave, gateway, case))
    except httpx.HTTPError as error:
        return f"no answer: {type(error).__name__}", b""
    if answer is None:
        return "left", b""
    ends = "ended"
    try:
        async for piece in answer.aiter_raw():
            received += piece
            if case.cue == "leaves mid-stream" and received.count(b'"delta":') > 4:
                ends = "left"
                break
    except httpx.HTTPError:
        ends = "cut"
    await answer.aclose()
    body = bytes(received)
    return _summary(case, answer, body, ends), body


async def _send(
    client: httpx.AsyncClient, request: httpx.Request, may_leave: Callable[[], bool]
) -> httpx.Response | None:
    """The answer with its head; None if the caller left before, as soon as it may."""
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(client.send(request, stream=True))
        while not (sending.done() or may_leave()):
            await asyncio.wait({sending}, timeout=0.01)
        sending.cancel()
    return None if sending.cancelled() else sending.result()


def _may_leave(gateway: GatewayFixture, case: FaultCase) -> bool:
    """True for a caller who leaves early, once the upstream has the call, or has begun on it."""
    if not case.cue.startswith("leaves before"):
        return False
    heard = [
        exchange for exchange in list(gateway.lab.exchanges) if case.mark.encode() in exchange.body
    ]
    return bool(heard) and (case.cue == "leaves before head" or bool(heard[0].sent))


def _summary(case: FaultCase, answer: httpx.Response, body: bytes, ends: str) -> str:
    kind = answer.headers["content-type"].partition(";")[0]
    if answer.status_code != 200:
        errors, _ = _read([body])
        error = errors[0]["error"] if errors else {"code": "not our envelope"}
        wait = answer.headers.get("retry-after")
        return f"{answer.status_code} {error['code']}" + (f", retry-after {wait}" if wait else "")
    if kind == "application/json":
        read, unread = _read([body])
        return "JSON cut" if ends == "cut" or unread else f"answer {_finish(read[0])}"
    assert kind == "text/event-stream", kind
    return _told_stream(case, body, ends)


def _told_stream(case: FaultCase, body: bytes, ends: str) -> str:
    payloads = [event.data for event in parse_events(body)]
    is_done = b"[DONE]" in payloads or case.endpoint == "responses"
    read, unread = _read(payloads)
    finish = next((end for part in read if (end := _finish(part))), "")
    error = next((code for part in read if (code := _code(part))), "")
    content = "answer" if finish else "part" if _said(body, case) else "nothing"
    words = f"{content} {finish}".strip()
    if error:
        words += f", error {error}"
    if unread:
        words += f", {unread} unreadable"
    if finish and not is_done:
        words += ", no [DONE]"
    return words if ends == "ended" else f"{words}, {ends}"


def _code(payload: dict[str, Any]) -> str:
    """The name that an error event gives its error; "" for any other event."""
    error = payload if payload.get("type") == "error" else payload.get("error")
    return str(error.get("code") or error.get("type")) if error else ""


def _read(payloads: list[bytes]) -> tuple[list[dict[str, Any]], int]:
    """The payloads that are JSON, and how many are not."""
    read, unread = [], 0
    for payload in payloads:
        if payload == b"[DONE]":
            continue
        try:
            read.append(orjson.loads(payload))
        except orjson.JSONDecodeError:
            unread += 1
    return read, unread


def _finish(payload: dict[str, Any]) -> str:
    """The reason that the answer ended; "" while it has not."""
    for choice in payload.get("choices", ()):
        if choice.get("finish_reason"):
            return str(choice["finish_reason"])
    response = payload.get("response", payload)
    ended = response.get("status") if "output" in response else None
    return ended if ended in {"completed", "incomplete", "failed"} else ""


def _said(body: bytes, case: FaultCase) -> str:
    """The text in what the caller got."""
    if not case.streamed:
        read, _ = _read([body])
        return "".join(_text(part) for part in read)
    read, _ = _read([event.data for event in parse_events(body)])
    return "".join(_text(part) for part in read)


def _text(payload: dict[str, Any]) -> str:
    if payload.get("type") == "response.output_text.delta":
        return str(payload["delta"])
    messages = [c.get("delta") or c.get("message") or {} for c in payload.get("choices", ())]
    messages += [
        {"content": part.get("text")}
        for item in payload.get("output", ())
        for part in item.get("content", ())
    ]
    return "".join(message.get("content") or "" for message in messages)


def _receipts(gateway: GatewayFixture, marks: set[str]) -> dict[str, list[Receipt]]:
    """The ledger by case, once each has its final receipt; a caller who left does not wait."""
    until = time.monotonic() + 15
    by_mark: dict[str, list[Receipt]] = {}
    while time.monotonic() < until:
        by_mark = {mark: [] for mark in marks}
        for receipt in gateway.all_receipts():
            by_mark.setdefault(receipt.feature, []).append(receipt)
        if all(any(receipt.final for receipt in receipts) for receipts in by_mark.values()):
            break
        time.sleep(0.05)
    return by_mark
