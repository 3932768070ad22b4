"""The steps of a stream on the connection, and the faults in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from random import Random
from typing import Any, Literal

import orjson

from proxy.tools.simulator.fault_directives import FaultDirectives
from proxy.tools.simulator.samples import seeded_random

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One server-sent event; no payload is the closing ``[DONE]``.

    Attributes:
        tokens: Generated tokens it carries; 0 for an event without content.
    """

    payload: Json | None
    name: str = ""
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class StreamStep:
    """One thing the connection does next.

    Attributes:
        kind: Wait, send the headers, charge the usage, send bytes, reset the connection, or never
            go on.
        seconds: Real seconds to wait.
    """

    kind: Literal["wait", "head", "charge", "send", "cut", "silence"]
    data: bytes = b""
    seconds: float = 0.0
    tokens: int = 0


HEAD, CHARGE, CUT, SILENCE = (
    StreamStep("head"),
    StreamStep("charge"),
    StreamStep("cut"),
    StreamStep("silence"),
)


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """An event's bytes, and how many generated tokens are in them."""

    data: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class StreamOpening:
    """The opening of a stream: so many events at once, then a pause before its content."""

    events: int
    pause: Iterable[StreamStep]


AT_ONCE = StreamOpening(0, ())


def frame(event: StreamEvent) -> StreamFrame:
    """The event as it stands in a stream."""
    name = f"event: {event.name}\n".encode() if event.name else b""
    data = b"[DONE]" if event.payload is None else orjson.dumps(event.payload)
    return StreamFrame(name + b"data: " + data + b"\n\n", event.tokens)


def with_usage_as_cued(
    events: Sequence[StreamEvent], cues: FaultDirectives, midway: StreamEvent
) -> list[StreamEvent]:
    """The events with their usage left out, doubled, zeroed, or also sent early."""
    remaining = list(events)
    if "no-usage" in cues:
        remaining = [event for event in remaining if not _without_usage(event)]
    if "zero-usage" in cues:
        for event in remaining:
            zero_usage(event.payload)
    if "double-usage" in cues:
        last = max(
            (i for i, event in enumerate(remaining) if _holders(event.payload)), default=None
        )
        remaining[:] = remaining if last is None else [*remaining[: last + 1], *remaining[last:]]
    if "early-usage" in cues:
        contents = [i for i, event in enumerate(remaining) if event.tokens]
        remaining.insert(contents[len(contents) // 2] if contents else 1, midway)
    return remaining


def zero_usage(payload: Json | None) -> None:
    """Set every count of the payload's usage to 0, in place."""
    for holder in _holders(payload):
        holder["usage"] = _zero_counts(holder["usage"])


def drop_usage(payload: Json | None) -> None:
    """Take the payload's usage away, in place."""
    for holder in _holders(payload):
        del holder["usage"]


def stream(
    frames: Sequence[StreamFrame],
    cues: FaultDirectives,
    error: StreamFrame,
    itl: float,
    opening: StreamOpening = AT_ONCE,
) -> Iterator[StreamStep]:
    """The steps of a stream, spoiled as cued; ``itl`` is in real seconds per token."""
    frames, last = _cut_frames(_apply_faults(list(frames), cues), cues, error)
    thrown = seeded_random(int(cues.number("split", 0))) if "split" in cues else None
    yield from _play_frames(frames[: opening.events], cues, itl, thrown)
    if "opening-error" in cues:
        yield from _play_frames([error], cues, itl, thrown)
        return
    yield from opening.pause
    yield from _play_frames(frames[opening.events :], cues, itl, thrown)
    if last is not None:
        yield last


def body(data: bytes, cues: FaultDirectives) -> Iterator[StreamStep]:
    """The steps of a JSON answer, spoiled as cued."""
    thrown = seeded_random(int(cues.number("split", 0)))
    half = data[: len(data) // 2]
    if "death" in cues or "stall" in cues:
        yield StreamStep("send", half)
        yield CUT if "death" in cues else SILENCE
    else:
        yield from _data_steps(data, 0, thrown if "split" in cues else None)


def keepalives(ping: bytes, count: int | None, seconds: float) -> Iterator[StreamStep]:
    """That many keep-alives with a pause before each; without end for None."""
    pair = (StreamStep("wait", seconds=seconds), StreamStep("send", ping))
    rounds: Iterable[object] = repeat(None) if count is None else repeat(None, count)
    return chain.from_iterable(pair for _ in rounds)


def _play_frames(
    frames: Sequence[StreamFrame], cues: FaultDirectives, itl: float, thrown: Random | None
) -> Iterator[StreamStep]:
    for sent_frame in frames:
        if sent_frame.tokens and itl:
            yield StreamStep("wait", seconds=sent_frame.tokens * itl)
        data = sent_frame.data.replace(b"\n", b"\r\n") if "crlf" in cues else sent_frame.data
        yield from _data_steps(data, sent_frame.tokens, thrown)


def _apply_faults(frames: list[StreamFrame], cues: FaultDirectives) -> list[StreamFrame]:
    if "no-done" in cues:
        frames.pop()
    if "malformed" in cues:
        index = _place(frames, cues.number("malformed", 2))
        whole = frames[index]
        frames[index] = replace(whole, data=whole.data[: len(whole.data) // 2] + b"\n\n")
    if "no-blank-line" in cues:
        index = _place(frames, cues.number("no-blank-line", 2))
        frames[index] = replace(frames[index], data=frames[index].data[:-1])
    return frames


def _cut_frames(
    frames: list[StreamFrame], cues: FaultDirectives, error: StreamFrame
) -> tuple[Sequence[StreamFrame], StreamStep | None]:
    """The frames up to where a cue ends the stream, and the step that ends it."""
    ends = (("error-event", None), ("short", None), ("stall", SILENCE), ("death", CUT))
    for name, last in ends:
        if name in cues:
            frames_sent = frames[: _place(frames, cues.number(name, 2))]
            return ([*frames_sent, error] if name == "error-event" else frames_sent), last
    return frames, None


def _place(frames: Sequence[StreamFrame], after: float) -> int:
    """Place of the content frame that has that many before it; the last one if too few."""
    places = [index for index, frame in enumerate(frames) if frame.tokens] or [0]
    return places[min(int(after), len(places) - 1)]


def _data_steps(data: bytes, tokens: int, thrown: Random | None) -> Iterator[StreamStep]:
    if thrown is None:
        yield StreamStep("send", data, tokens=tokens)
        return
    start = 0
    while start < len(data):
        size = thrown.randint(1, 7)
        yield StreamStep("send", data[start : start + size], tokens=0 if start else tokens)
        start += size


def _holders(payload: Json | None) -> list[Json]:
    """The objects of a payload that hold a usage with counts."""
    if payload is None:
        return []
    places = (payload, payload.get("message"), payload.get("response"))
    return [place for place in places if isinstance(place, dict) and place.get("usage")]


def _without_usage(event: StreamEvent) -> bool:
    """Take the event's usage away; whether nothing is left of it then."""
    if not _holders(event.payload):
        return False
    drop_usage(event.payload)
    return event.payload is not None and event.payload.get("choices") == []


def _zero_counts(usage: object) -> object:
    if isinstance(usage, dict):
        return {name: _zero_counts(value) for name, value in usage.items()}
    return 0 if isinstance(usage, int) else usage
