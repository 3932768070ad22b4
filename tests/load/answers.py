"""Reads an answer as a caller does: its text, its tokens, what it cost, when it began."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

_ACCOUNT: Final = b": thriftgate "
_DATA: Final = b"data: "
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_COST: Final = "x-thriftgate-cost-usd"


@dataclass(slots=True)
class AnswerOutcome:
    """One answer as its caller saw it.

    Attributes:
        ttft: Seconds to the first content; None where none came.
        tokens: Prompt and answer together; 0 where nobody said.
        cost: Dollars; None where nobody said.
        error: Why it is no good answer; "" where it is one.
    """

    text: str = ""
    ttft: float | None = None
    tokens: int = 0
    cost: float | None = None
    error: str = ""
    ended: bool = False
    pieces: list[str] = field(default_factory=list)


def read_whole(body: bytes, cost: str) -> AnswerOutcome:
    """The outcome of an answer that is not a stream."""
    try:
        answer = json.loads(body)
    except ValueError:
        return AnswerOutcome(error="the answer is no JSON")
    outcome = AnswerOutcome(tokens=_tokens(answer.get("usage")), cost=float(cost) if cost else None)
    outcome.text = "".join(_texts(answer))
    return outcome


def read_stream(
    lines: Iterable[bytes], now: Callable[[], float], leaves_after: int
) -> AnswerOutcome:
    """The outcome of a stream, read until it ends or the caller leaves.

    Args:
        lines: The stream's lines.
        now: Seconds since the call was sent.
        leaves_after: Events with content after which the caller leaves; 0 to stay.
    """
    outcome, events = AnswerOutcome(), 0
    for line in lines:
        if line.startswith(_ACCOUNT):
            account = json.loads(line[len(_ACCOUNT) :])
            outcome.cost = float(account[_COST]) if _COST in account else None
        elif line.startswith(_DATA):
            events += _take(outcome, line[len(_DATA) :], now)
            if leaves_after and events >= leaves_after:
                outcome.ended = True
                break
    outcome.text = "".join(outcome.pieces)
    if not outcome.ended and not outcome.error:
        outcome.error = "the stream ended too soon"
    return outcome


def _take(answer: AnswerOutcome, data: bytes, now: Callable[[], float]) -> int:
    """Take over one event; 1 if it has content."""
    if data == b"[DONE]":
        answer.ended = True
        return 0
    event = json.loads(data)
    kind = event.get("type", "")
    if event.get("error") or kind in {"error", "response.failed"}:
        answer.error = f"the stream has an error: {data[:200].decode()}"
    usage = event.get("usage") or (event.get("response") or {}).get("usage")
    answer.tokens = _tokens(usage) or answer.tokens
    answer.ended = answer.ended or kind in _ENDS
    pieces = list(_pieces(event))
    if not pieces:
        return 0
    answer.ttft = now() if answer.ttft is None else answer.ttft
    answer.pieces += pieces
    return 1


def _pieces(event: dict[str, Any]) -> Iterable[str]:
    """The text that an event adds, of chat and of responses."""
    for choice in event.get("choices", ()):
        if text := choice.get("delta", {}).get("content"):
            yield text
    if event.get("type") == "response.output_text.delta":
        yield event["delta"]


def _texts(answer: dict[str, Any]) -> Iterable[str]:
    """The text of a whole answer, of chat and of responses."""
    for choice in answer.get("choices", ()):
        yield choice["message"].get("content") or ""
    for item in answer.get("output", ()):
        for part in item.get("content") or ():
            yield part.get("text", "")


def _tokens(usage: dict[str, Any] | None) -> int:
    if not usage:
        return 0
    read = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    return int(read + usage.get("completion_tokens", usage.get("output_tokens", 0)))
