"""What goes over the connection, step by step, and how faults spoil it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from random import Random
from typing import Any, Literal

import orjson

from proxy.tools.simulator.fault_directives import Cues
from proxy.tools.simulator.simulated_text import dice

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; no payload is the closing ``[DONE]``.

    Attributes:
        payload: Its data.
        name: Its ``event`` field; "" for none.
        tokens: Generated tokens it carries; 0 for an event without content.
    """

    payload: Json | None
    name: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the connection does next.

    Attributes:
        kind: Wait, send the headers, charge the usage, send bytes, reset the connection, or never
            go on.
        data: The bytes to send.
        seconds: Real seconds to wait.
        tokens: Generated tokens among the bytes.
    """

    kind: Literal["wait", "head", "charge", "send", "cut", "silence"]
    data: bytes = b""
    seconds: float = 0.0
    tokens: int = 0


HEAD, CHARGE, CUT, SILENCE = Step("head"), Step("charge"), Step("cut"), Step("silence")


@dataclass(frozen=True, slots=True)
class Frame:
    """An event's bytes, and how many generated tokens are in them."""

    data: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Opening:
    """How a stream opens: so many events at once, then a pause before its content."""

    events: int
    pause: Iterable[Step]


AT_ONCE = Opening(0, ())


def frame(event: Event) -> Frame:
    """The event as it stands in a stream."""
    name = f"event: {event.name}\n".encode() if event.name else b""
    data = b"[DONE]" if event.payload is None else orjson.dumps(event.payload)
    return Frame(name + b"data: " + data + b"\n\n", event.tokens)


def with_usage_as_cued(events: Sequence[Event], cues: Cues, midway: Event) -> list[Event]:
    """The events with their usage left out, doubled, zeroed, or told early as well."""
    told = list(events)
    if "no-usage" in cues:
        told = [event for event in told if not _dropped(event)]
    if "zero-usage" in cues:
        for event in told:
            zero_usage(event.payload)
    if "double-usage" in cues:
        last = max((i for i, event in enumerate(told) if _holders(event.payload)), default=None)
        told[:] = told if last is None else [*told[: last + 1], *told[last:]]
    if "early-usage" in cues:
        contents = [i for i, event in enumerate(told) if event.tokens]
        told.insert(contents[len(contents) // 2] if contents else 1, midway)
    return told


def zero_usage(payload: Json | None) -> None:
    """Set every count of the payload's usage to 0, in place."""
    for holder in _holders(payload):
        holder["usage"] = _zeroed(holder["usage"])


def drop_usage(payload: Json | None) -> None:
    """Take the payload's usage away, in place."""
    for holder in _holders(payload):
        del holder["usage"]


def stream(
    frames: Sequence[Frame], cues: Cues, error: Frame, itl: float, opening: Opening = AT_ONCE
) -> Iterator[Step]:
    """The steps of a stream, spoiled as cued; ``itl`` is in real seconds per token."""
    frames, last = _ended(_spoiled(list(frames), cues), cues, error)
    thrown = dice(int(cues.number("split", 0))) if "split" in cues else None
    yield from _played(frames[: opening.events], cues, itl, thrown)
    if "opening-error" in cues:
        yield from _played([error], cues, itl, thrown)
        return
    yield from opening.pause
    yield from _played(frames[opening.events :], cues, itl, thrown)
    if last is not None:
        yield last


def body(data: bytes, cues: Cues) -> Iterator[Step]:
    """The steps of a JSON answer, spoiled as cued."""
    thrown = dice(int(cues.number("split", 0)))
    half = data[: len(data) // 2]
    if "death" in cues or "stall" in cues:
        yield Step("send", half)
        yield CUT if "death" in cues else SILENCE
    else:
        yield from _sent(data, 0, thrown if "split" in cues else None)


def keepalives(ping: bytes, count: int | None, seconds: float) -> Iterator[Step]:
    """That many keep-alives with a pause before each; without end for None."""
    pair = (Step("wait", seconds=seconds), Step("send", ping))
    rounds: Iterable[object] = repeat(None) if count is None else repeat(None, count)
    return chain.from_iterable(pair for _ in rounds)


def _played(
    frames: Sequence[Frame], cues: Cues, itl: float, thrown: Random | None
) -> Iterator[Step]:
    for each in frames:
        if each.tokens and itl:
            yield Step("wait", seconds=each.tokens * itl)
        data = each.data.replace(b"\n", b"\r\n") if "crlf" in cues else each.data
        yield from _sent(data, each.tokens, thrown)


def _spoiled(frames: list[Frame], cues: Cues) -> list[Frame]:
    if "no-done" in cues:
        frames.pop()
    if "malformed" in cues:
        at = _place(frames, cues.number("malformed", 2))
        whole = frames[at]
        frames[at] = replace(whole, data=whole.data[: len(whole.data) // 2] + b"\n\n")
    if "no-blank-line" in cues:
        at = _place(frames, cues.number("no-blank-line", 2))
        frames[at] = replace(frames[at], data=frames[at].data[:-1])
    return frames


def _ended(frames: list[Frame], cues: Cues, error: Frame) -> tuple[Sequence[Frame], Step | None]:
    """The frames up to where a cue ends the stream, and the step that ends it."""
    ends = (("error-event", None), ("short", None), ("stall", SILENCE), ("death", CUT))
    for name, last in ends:
        if name in cues:
            kept = frames[: _place(frames, cues.number(name, 2))]
            return ([*kept, error] if name == "error-event" else kept), last
    return frames, None


def _place(frames: Sequence[Frame], after: float) -> int:
    """Where the content frame stands that has that many before it; the last one if too few."""
    places = [index for index, each in enumerate(frames) if each.tokens] or [0]
    return places[min(int(after), len(places) - 1)]


def _sent(data: bytes, tokens: int, thrown: Random | None) -> Iterator[Step]:
    if thrown is None:
        yield Step("send", data, tokens=tokens)
        return
    start = 0
    while start < len(data):
        size = thrown.randint(1, 7)
        yield Step("send", data[start : start + size], tokens=0 if start else tokens)
        start += size


def _holders(payload: Json | None) -> list[Json]:
    """The objects of a payload that hold a usage with counts."""
    if payload is None:
        return []
    places = (payload, payload.get("message"), payload.get("response"))
    return [place for place in places if isinstance(place, dict) and place.get("usage")]


def _dropped(event: Event) -> bool:
    """Take the event's usage away; whether nothing is left of it then."""
    if not _holders(event.payload):
        return False
    drop_usage(event.payload)
    return event.payload is not None and event.payload.get("choices") == []


def _zeroed(usage: object) -> object:
    if isinstance(usage, dict):
        return {name: _zeroed(value) for name, value in usage.items()}
    return 0 if isinstance(usage, int) else usage
