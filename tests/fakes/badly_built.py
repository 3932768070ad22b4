"""Recorded conversations, built the way many people build prompts: what changes comes first.

The conversations are real; that they are built badly is made. Above the rules stand lines with the
time of the call, the user and the directory, and the tools come in another order with every call.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count, islice
from random import Random
from typing import Any

import orjson

from tests.fakes.handbook import dice
from tests.fakes.recorded import RecordedDialogue

_ABOVE = (
    "Current time: {at:%A, %d %B %Y, %H:%M:%S} UTC\n"
    "User: {one.user}\n"
    "Working directory: {one.place}\n\n"
)
Line = dict[str, Any]


def bodies(
    one: RecordedDialogue, times: Iterable[float], roll: Random
) -> Iterator[Mapping[str, Any]]:
    """Each call of the conversation, made at those times (seconds since the epoch)."""
    for (before, _), second in zip(one.calls(), times, strict=False):
        above = _ABOVE.format(at=datetime.fromtimestamp(second, UTC), one=one)
        system = {"role": "system", "content": above + one.rules}
        tools = list(one.tools)
        roll.shuffle(tools)
        yield {
            "model": "any",
            "messages": [system, *before],
            **({"tools": tools} if tools else {}),
        }


def raw_bodies(one: RecordedDialogue, seed: str = "") -> Iterator[bytes]:
    """The same as bytes, at times of its own."""
    yield from (orjson.dumps(line["body"]) for line in _conversation(one, 0.0, seed))


def times(one: RecordedDialogue, roll: Random) -> Iterator[float]:
    """The times of calls: as recorded, or 2 to 20 seconds after the one before."""
    second = one.began
    waits = iter(one.waits)
    while True:
        yield second
        second += next(waits, None) or roll.uniform(2.0, 20.0)


def lines(them: Iterable[RecordedDialogue], *, gap: float = 30.0, seed: str = "") -> Iterator[Line]:
    """Lines for ``thriftgate replay`` in time order, a conversation begun every ``gap`` or so.

    Only conversations that are open at the same time are held in memory.
    """
    roll = dice(seed, "starts")
    order = count()
    open_: list[tuple[float, int, Iterator[Line], Line]] = []
    start = 0.0
    for one in them:
        while open_ and open_[0][0] <= start:
            yield _next(open_)
        conversation = _conversation(one, start, seed)
        line = next(conversation, None)
        if line is not None:
            heappush(open_, (line["t"], next(order), conversation, line))
        start += roll.uniform(0.0, 2 * gap)
    while open_:
        yield _next(open_)


def _next(open_: list[tuple[float, int, Iterator[Line], Line]]) -> Line:
    _, number, conversation, line = heappop(open_)
    after = next(conversation, None)
    if after is not None:
        heappush(open_, (after["t"], number, conversation, after))
    return line


def _conversation(one: RecordedDialogue, start: float, seed: str) -> Iterator[Line]:
    roll = dice(seed, one.name)
    seconds = list(islice(times(one, roll), sum(1 for _ in one.calls())))
    for body, (_, reply), second in zip(
        bodies(one, seconds, roll), one.calls(), seconds, strict=True
    ):
        yield {
            "t": round(start + second - one.began, 3),
            "conversation": one.name,
            "key": "replay",
            "feature": one.feature,
            "body": body,
            "reply": reply,
        }
