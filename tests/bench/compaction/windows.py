"""Chats of 20 turns and about 12,000 tokens that have to come under 3,000, put together unchanged.

- *desk*: τ-bench's conversations of one agent, one customer after the other.
- *clerk*: AgentDojo's banking tasks of one model, one order after the other: about 8,500 tokens.
- *coder*: runs of 20 turns of pi's long session.
- *reader*: the same of GoodAI's chats, where users paste whole chapters.

Needed are the values of later calls that stand nowhere but in the turns before the last three.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tests.bench.compaction.cases import ChatCase, at_risk, later_values
from tests.bench.compaction.dialogues import dialogues, join_dialogues
from tests.bench.compaction.measuring import tokenizer
from tests.fakes.dialogue import Dialogue, Message, words

TARGET_TOKENS: Final = 3_000
_TURNS: Final = 20
_SMALLEST, _LARGEST = 9_000, 15_000


def windows() -> Iterator[ChatCase]:
    """All of them."""
    for dialogue in (*_desk(), *_clerk(), *_runs("pi-mono"), *_runs("goodai")):
        now = dialogue.turns[:_TURNS][-1] + 1
        needed = [
            (value,) for value in at_risk(dialogue.messages, now, later_values(dialogue, now))
        ]
        yield ChatCase(name=dialogue.name, messages=dialogue.messages[:now], needed=needed)


def desk_windows() -> Iterator[ChatCase]:
    """The desks alone, whatever is needed of them."""
    for dialogue in _desk():
        now = dialogue.turns[:_TURNS][-1] + 1
        yield ChatCase(name=dialogue.name, messages=dialogue.messages[:now], needed=())


def _desk() -> Iterator[Dialogue]:
    """Customers one after the other, beginning with each of those recorded."""
    recorded = dialogues("tau")
    for first in range(len(recorded)):
        queue: list[Dialogue] = []
        while sum(len(one.turns) for one in queue) < _TURNS and first + len(queue) < len(recorded):
            queue.append(recorded[first + len(queue)])
        joined = join_dialogues(queue)
        if len(joined.turns) >= _TURNS and _is_of_size(joined):
            yield joined


def _clerk() -> Iterator[Dialogue]:
    """Orders one after the other."""
    by_model: dict[str, list[Dialogue]] = {}
    for one in dialogues("agentdojo"):
        if one.name.endswith("none/none") and "/banking/" in one.name:
            by_model.setdefault(one.name.split("/user_task")[0], []).append(one)
    return map(join_dialogues, by_model.values())


def _runs(name: str) -> Iterator[Dialogue]:
    for dialogue in dialogues(name):
        turns, begin = dialogue.turns, 0
        while begin + _TURNS < len(turns):
            start = turns[begin]
            run = replace(
                dialogue,
                name=f"{dialogue.name}@{start}",
                messages=dialogue.messages[start:],
                needs={place - start: n for place, n in dialogue.needs.items() if place >= start},
                results=frozenset(place - start for place in dialogue.results if place >= start),
            )
            fits = _is_of_size(run)
            begin += _TURNS if fits else 1
            if fits:
                yield run


def _is_of_size(dialogue: Dialogue) -> bool:
    return _SMALLEST <= _tokens(dialogue.messages[: dialogue.turns[_TURNS - 1] + 1]) <= _LARGEST


def _tokens(messages: Sequence[Message]) -> int:
    count = tokenizer()
    return sum(count(words(message)) for message in messages)
