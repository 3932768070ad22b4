# ruff: noqa: T201 - a script prints its result

"""Time that compaction of a history takes: at first sight, after an edit, with the last turn new.

Two histories: code (pi's session) and orders (τ-bench's conversations one after the other). As a
reference, decoding the same bytes as JSON. Medians; processor time of this process alone.

Edited is the first message of a user or a tool after the first tenth of a known history.

Usage: python -m tests.bench.compaction_speed [--rounds N] [--size BYTES]
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from statistics import median, quantiles
from time import process_time
from typing import Final

import orjson

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from tests.bench.compaction.dialogues import dialogues, join_dialogues
from tests.fakes.dialogue import Message

#: Calls at the end of a history that are timed one after the other.
_NEWEST: Final = 40
POLICIES: Final = {
    "trim": CompactionPolicy(mode=CompactionMode.TRIM),
    "facts, cached": CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25, output=5.0)),
    "facts, forced to 3,000": CompactionPolicy(force=True, target=3_000),
}


def histories(size: int = 300_000) -> Iterator[tuple[str, list[bytes]]]:
    """Histories of so many bytes that end with what asks for an answer."""
    yield "code", _first_messages(_raws(dialogues("pi-mono")[0].messages), size)
    yield "orders", _first_messages(_raws(join_dialogues(dialogues("tau")).messages), size)


def first_sight(them: Sequence[bytes], policy: CompactionPolicy) -> float:
    """Seconds to compact a history that nothing is known of."""
    return _seconds_of(lambda: compact(them, policy, memory=CompactionMemory()))


def edited_history(them: Sequence[bytes], policy: CompactionPolicy) -> float:
    """Seconds to compact a known history of which an early message is other."""
    memory = CompactionMemory()
    compact(them, policy, memory=memory)
    place = next(at for at in range(len(them) // 10, len(them)) if not _answers(them[at]))
    message = orjson.loads(them[place])
    history = [*them]
    history[place] = orjson.dumps({**message, "content": f"{message['content']} (edited)"})
    return _seconds_of(lambda: compact(history, policy, memory=memory))


def last_new(them: Sequence[bytes], policy: CompactionPolicy) -> list[float]:
    """Seconds for each of the last calls, one after the other."""
    memory = CompactionMemory()
    asking = [at for at in range(1, len(them)) if _answers(them[at]) and not _answers(them[at - 1])]
    first, *newest = asking[-_NEWEST - 1 :]
    compact(them[:first], policy, memory=memory)
    return [
        _seconds_of(lambda at=at: compact(them[:at], policy, memory=memory))  # type: ignore[misc]
        for at in newest
    ]


def decode_seconds(them: Sequence[bytes]) -> float:
    """Seconds to decode the same bytes."""
    whole = b"[" + b",".join(them) + b"]"
    return _seconds_of(lambda: orjson.loads(whole))


def main() -> None:
    """Print a row for each history and policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--size", type=int, default=300_000)
    options = parser.parse_args()
    columns = [
        "first sight, ms",
        "edited, ms",
        "last turn new, ms",
        "its p95",
        "decoding, ms",
        "ratio",
    ]
    print(f"| history | policy | {' | '.join(columns)} |\n|---|---|{'--:|' * 6}")
    for name, them in histories(options.size):
        decode_s = median(decode_seconds(them) for _ in range(options.rounds))
        for policy, held in POLICIES.items():
            first = median(first_sight(them, held) for _ in range(options.rounds))
            last = [each for _ in range(3) for each in last_new(them, held)]
            again = median(edited_history(them, held) for _ in range(options.rounds))
            figures = [first, again, median(last), quantiles(last, n=20)[-1], decode_s]
            cells = " | ".join(f"{1e3 * each:.2f}" for each in figures)
            print(f"| {name} | {policy} | {cells} | {first / decode_s:.0f} |", flush=True)


def _first_messages(them: Sequence[bytes], max_size: int) -> list[bytes]:
    sizes = accumulate(len(raw) for raw in them)
    most = next((index for index, size in enumerate(sizes) if size > max_size), len(them))
    while _answers(them[most - 1]):
        most -= 1
    return list(them[:most])


def _raws(messages: Sequence[Message]) -> list[bytes]:
    return [orjson.dumps(message) for message in messages]


def _answers(raw: bytes) -> bool:
    return bool(orjson.loads(raw)["role"] == "assistant")


def _seconds_of(run: Callable[[], object]) -> float:
    began = process_time()
    run()
    return process_time() - began


if __name__ == "__main__":
    main()
