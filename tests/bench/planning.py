# ruff: noqa: T201 - a script prints its result
"""Processor time of planning: a conversation that grows by a little per call.

Each row is one call of a conversation of about so many bytes, of which the last pair of messages
is new; beside it the first sight of such a prompt, and, in the same run, what reading and writing
the same body once and hashing it once take. Medians. Rows of Responses are the same conversations
as calls of that API, with typed parts and results of tools.
Usage: python -m tests.bench.planning [--quick]
"""

import argparse
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from statistics import median
from time import thread_time_ns
from typing import Any, Final

import msgspec
import orjson

from proxy.caches.outlook import planning_regime
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.layouts.layout import Anchor, Layout, LayoutMove
from proxy.prefix.planned import Planned, PlanningRequest, PlanningTarget
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.fingerprints import team_fingerprint
from proxy.prefix.prompts.prompt import PromptSlot
from slo.price import TokenRates
from slo.usage import Usage

Json = dict[str, Any]

SIZES: Final = {"2 KB": 2 * 1024, "32 KB": 32 * 1024, "128 KB": 128 * 1024}
REGIMES: Final = ("anthropic-breakpoint", "openai-breakpoint", "openai-interval", "block-chain")
#: Caches that the Responses API is met with here.
_RESPONSES: Final = ("openai-breakpoint",)
_SECRET: Final = b"bench"
_NEW: Final = 4 * 1024
_SYSTEM: Final = 6 * 1024
_TOOLS: Final = 14
_ROUNDS: Final = 30
_TEXT: Final = """
account answer balance before between change check customer date delivery detail each early every
field file first follow found given grant house invoice keep later letter limit line market matter
money month never note number offer order other paid part payment people place please point price
question rate reach read reason record refund report request result right rule same second section
sent shop show since small some state still stock store table team term there "time" total under
unit until user value week which while who with within work
"""
_WORDS: Final = _TEXT.split()


class CallTimes(msgspec.Struct, frozen=True):
    """Microseconds of one call: read and planned before it is sent, settled once answered."""

    before: float
    after: float
    body: bytes

    @property
    def whole(self) -> float:
        """All of it."""
        return self.before + self.after


@dataclass(frozen=True, kw_only=True)
class MedianTimes:
    """Medians, in microseconds."""

    name: str
    first: float
    before: float
    after: float
    reading: float
    hashing: float

    @property
    def whole(self) -> float:
        """All that planning costs a call."""
        return self.before + self.after


def prose(chance: random.Random, size: int) -> str:
    """Words, about so many bytes of them."""
    words = chance.choices(_WORDS, k=size // 5 + 1)
    lines = (" ".join(words[start : start + 14]) for start in range(0, len(words), 14))
    return "\n".join(lines)[:size]


def tool(chance: random.Random, number: int) -> Json:
    """A function with three parameters."""
    fields = {
        f"{chance.choice(_WORDS[:60])}_{index}": {
            "type": "string",
            "description": prose(chance, 80),
        }
        for index in range(3)
    }
    inner = {
        "name": f"tool_{number * 7 % _TOOLS:02}",
        "description": prose(chance, 300),
        "parameters": {"type": "object", "properties": fields, "required": list(fields)},
    }
    return {"type": "function", "function": inner}


def head(number: int) -> str:
    """The first lines of the instructions: what time it is, and what stays."""
    return f"Current time: 2026-11-20 {number // 60 % 24:02}:{number % 60:02}\nYou are a clerk.\n"


def bodies(seed: int, size: int, steps: int, *, ticks: bool) -> Iterator[bytes]:
    """A conversation's calls: the first of about so many bytes, each next one 4 KB longer.

    Args:
        seed: Makes its words.
        size: Bytes of the first.
        steps: How many.
        ticks: Whether the first line of the instructions is another one at each call.
    """
    chance = random.Random(seed)  # noqa: S311 - words
    small = size < 4 * _NEW
    few = 2 if small else _TOOLS
    tools = [tool(chance, number) for number in range(few)]
    system = prose(chance, size // 8 if small else _SYSTEM)
    talk: list[Json] = []
    while len(orjson.dumps([tools, system, talk])) < size:
        talk += pair(chance, size // 90)
    for index in range(steps):
        system_message = {"role": "system", "content": head(seed * 1000 + index * ticks) + system}
        messages = [system_message, *talk, {"role": "user", "content": prose(chance, 200)}]
        yield orjson.dumps({"model": "bench", "tools": tools, "messages": messages})
        talk += pair(chance, (min(_NEW, size // 8)) // 2)


def pair(chance: random.Random, size: int) -> list[Json]:
    """A question and its answer of about so many bytes each."""
    return [
        {"role": "user", "content": prose(chance, size)},
        {"role": "assistant", "content": prose(chance, size)},
    ]


def in_items(chat: bytes) -> bytes:
    """The same call of the Responses API; every other answer is what a tool gave."""
    document = orjson.loads(chat)
    rules, *others = document.pop("messages")
    items = [item(index, **message) for index, message in enumerate(others)]
    tools = [{"type": "function", **each["function"]} for each in document["tools"]]
    more = {"instructions": rules["content"], "store": False, "input": items}
    return orjson.dumps({**document, "tools": tools, **more})


def item(number: int, role: str, content: str) -> Json:
    """A message as an item."""
    if role == "user":
        return {"role": role, "content": [{"type": "input_text", "text": content}]}
    if number % 4 == 1:
        return {"type": "function_call_output", "call_id": f"call_{number}", "output": content}
    part = {"type": "output_text", "text": content, "annotations": []}
    return {"type": "message", "id": f"msg_{number}", "role": role, "content": [part]}


def moves() -> Layout:
    """The layout that sends the first line of the instructions to the end."""
    words = "You are a clerk."
    after = Anchor(team_fingerprint(_SECRET, "team")(words.encode()).hex(), len(words))
    move = LayoutMove(
        before=None, after=after, slot=PromptSlot.VARIABLE, label="Current time", count=1, of=1
    )
    return Layout(version=1, moves=(move,))


def way(regime: str) -> PlanningTarget:
    """A route to such a cache, at usual prices."""
    rates = TokenRates(
        input=3_000_000_000,
        cache_read=300_000_000,
        write_5m=3_750_000_000,
        write_30m=3_750_000_000,
        write_1h=6_000_000_000,
        write_12h=7_500_000_000,
        output=15_000_000_000,
    )
    here = planning_regime(regime, provider="", rates=rates)
    return PlanningTarget(upstream="up", model="bench", regime=here, late=True, rates=rates)


def play(
    planner: Planner, body: bytes, to: PlanningTarget, layout: Layout | None, now: float
) -> CallTimes:
    """One call, planned and settled."""
    request = PlanningRequest(team="team", feature="feature", key="key", body=body)
    start = thread_time_ns()
    draft = planner.read_call(request)
    plan: Plan | None = planner.known_plan(draft)
    if plan is None:
        plan = planner.begin_plan(draft, 0)
        # The bench begins midway; its conversations were seen from their start, for all that.
        plan = msgspec.structs.replace(plan, joined=False, layout=layout.version if layout else 0)
    planned: Planned = planner.plan_call(draft, to, plan, layout, now)
    planner.adopt_plan(draft, planned.plan)
    sent = thread_time_ns()
    tokens = len(planned.body) // 4
    usage = Usage(input=tokens // 10, cache_read=tokens - tokens // 10)
    planner.settle_call(planned, usage)
    done = thread_time_ns()
    return CallTimes((sent - start) / 1000, (done - sent) / 1000, planned.body)


def row(
    name: str,
    size: int,
    regime: str,
    layout: Layout | None,
    rounds: int = _ROUNDS,
    rewrite: Callable[[bytes], bytes] = bytes,
) -> MedianTimes:
    """The medians of some conversations on one kind of cache.

    Args:
        name: What the row is called.
        size: Bytes of a conversation's first call.
        regime: The cache.
        layout: What moves; None for nothing.
        rounds: Calls, of all conversations.
        said: Makes the call of a chat body.
    """
    planner = Planner(_SECRET, share=0.0)
    to = way(regime)
    firsts: list[float] = []
    others: list[CallTimes] = []
    body = b""
    for seed in range(4):
        now = 1_000_000.0
        calls = bodies(seed, size, 2 + rounds // 4, ticks=layout is not None)
        for index, body in enumerate(map(rewrite, calls)):
            step = play(planner, body, to, layout, now + 20 * index)
            if index == 0:
                firsts.append(step.whole)
            else:
                others.append(step)
    return MedianTimes(
        name=name,
        first=median(firsts),
        before=median(step.before for step in others),
        after=median(step.after for step in others),
        reading=median_time(lambda: orjson.dumps(orjson.loads(body))),
        hashing=median_time(lambda: blake2b(body, digest_size=16, key=b"key").digest()),
    )


def median_time(work: Callable[[], object]) -> float:
    """The median time of some work, in microseconds."""
    times = []
    for _ in range(30):
        start = thread_time_ns()
        work()
        times.append((thread_time_ns() - start) / 1000)
    return median(times)


def main() -> None:
    """Print the table as markdown."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="128 KB on two regimes alone")
    quick = options.parse_args().quick
    sizes = dict([*SIZES.items()][-1:]) if quick else SIZES
    print("| prompt | cache | first sight | planned | settled | all | read+write | hash | ratio |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, size in sizes.items():
        for regime in REGIMES[:2] if quick else REGIMES:
            for layout in (None, moves()):
                title = f"{name}, arranged" if layout else name
                show(row(title, size, regime, layout), regime)
                if regime in _RESPONSES:
                    title = f"{title}, Responses"
                    show(row(title, size, regime, layout, rewrite=in_items), regime)


def show(figures: MedianTimes, regime: str) -> None:
    """Print a row; times are in milliseconds."""
    times = (
        figures.first,
        figures.before,
        figures.after,
        figures.whole,
        figures.reading,
        figures.hashing,
    )
    cells = (figures.name, regime, *(f"{time / 1000:.2f}" for time in times))
    print("| " + " | ".join(cells) + f" | {figures.whole / figures.reading:.1f} |", flush=True)


if __name__ == "__main__":
    main()
