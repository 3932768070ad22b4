"""Recorded conversations with their texts, as a client sends them: call after call, all of it.

Where times were recorded they are kept, else calls follow each other after 4 seconds. Sets of short
conversations are put in a row, so many each, as one customer after the other at one desk.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final

import orjson

from tests.bench.compaction.dialogues import SETS, dialogues, dialogues_in_chains
from tests.bench.recorded import pi_mono as pi_calls
from tests.fakes.dialogue import Dialogue, Message
from tests.fakes.recorded import KINDS as RECORDED

_STEP: Final = 4.0
_TOOK: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """A call: when, and of how many messages its prompt is; the answer is the message behind."""

    at: float
    end: int
    took: float = _TOOK


@dataclass(frozen=True, kw_only=True)
class RecordedConversation:
    """A conversation.

    Attributes:
        name: Its own within the set.
        raws: Each message as JSON.
        asks: Its calls, in order.
        tools: Definitions of tools as JSON; b"" for none.
    """

    name: str
    raws: Sequence[bytes]
    asks: Sequence[RecordedRequest]
    tools: bytes = b""


def recordings(name: str) -> Iterator[RecordedConversation]:
    """A set's dialogues, each one by itself."""
    return map(_talk, dialogues(name))


def in_a_row(name: str, length: int) -> Iterator[RecordedConversation]:
    """A set's dialogues, so many one after the other."""
    return map(_talk, dialogues_in_chains(name, length))


def pi_mono() -> Iterator[RecordedConversation]:
    """pi's session, at its recorded times; calls that broke off uncounted are none."""
    calls = list(pi_calls(SETS["pi-mono"][1]))
    raws = [orjson.dumps(message) for message in (*calls[-1].body["messages"], calls[-1].reply)]
    asks = [RecordedRequest(at=call.at or 0.0, end=len(call.body["messages"])) for call in calls]
    yield RecordedConversation(name="pi", raws=raws, asks=asks)


def mini_swe() -> Iterator[RecordedConversation]:
    """mini-swe-agent's sessions, at their recorded times."""
    for one in RECORDED["lmcache"](SETS["mini-swe"][1]):
        system: list[Message] = [{"role": "system", "content": one.rules}] if one.rules else []
        messages = [*system, *one.messages]
        times = accumulate(one.waits, initial=one.began)
        ends = list(_answers(messages))
        asks = [RecordedRequest(at=at, end=end) for at, end in zip(times, ends, strict=False)]
        yield RecordedConversation(name=one.name, raws=[*map(orjson.dumps, messages)], asks=asks)


def goodai() -> Iterator[RecordedConversation]:
    """GoodAI's long chats, at their recorded times."""
    for file in sorted(SETS["goodai"][1].rglob("master_log.jsonl")):
        rows = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        spoken = [row for row in rows if row["type"] in {0, 3, 4, 5}]
        raws, asks, before = list[bytes](), list[RecordedRequest](), 0.0
        for row in spoken:
            speaks = row["type"] in {4, 5}
            if speaks and raws:
                took = max(row["timestamp"] - before, 0.0)
                asks.append(RecordedRequest(at=before, end=len(raws), took=took))
            message = {
                "role": "assistant" if speaks else "user",
                "content": row["data"]["message"],
            }
            raws.append(orjson.dumps(message))
            before = row["timestamp"]
        yield RecordedConversation(name=file.parent.name, raws=raws, asks=asks)


#: Reads a set.
RECORDINGS: Final[Mapping[str, Callable[[], Iterator[RecordedConversation]]]] = {
    "pi-mono": pi_mono,
    "goodai": goodai,
    "mini-swe": mini_swe,
    "swe-agent": partial(recordings, "swe-agent"),
    "tau": partial(recordings, "tau"),
    "tau x20": partial(in_a_row, "tau", 20),
    "sgd x16": partial(in_a_row, "sgd", 16),
    "agentdojo": partial(recordings, "agentdojo"),
    "agentdojo x16": partial(in_a_row, "agentdojo", 16),
}


def _talk(dialogue: Dialogue) -> RecordedConversation:
    asks = [
        RecordedRequest(at=_STEP * n, end=end) for n, end in enumerate(_answers(dialogue.messages))
    ]
    return RecordedConversation(
        name=dialogue.name,
        raws=[*map(orjson.dumps, dialogue.messages)],
        asks=asks,
        tools=orjson.dumps(list(dialogue.tools)) if dialogue.tools else b"",
    )


def _answers(messages: Sequence[Message]) -> Iterable[int]:
    """The indexes of the assistant's answers to a user or a tool."""
    for index, message in enumerate(messages):
        before = {earlier["role"] for earlier in messages[max(index - 1, 0) : index]}
        if message["role"] == "assistant" and before & {"user", "tool"}:
            yield index
