"""Recorded chats with annotated values: MultiWOZ, SGD's utterances, and CrossWOZ in Chinese.

Gold is what the assistant's own acts told: an item is a value that only the assistant said, before
the last turns, and that anybody names later. SGD's proposals: what was offered and then selected,
or asked and then affirmed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import orjson

from tests.bench.compaction.cases import (
    ChatCase,
    at_risk,
    call_places,
    is_held_back,
    joined_text,
    plain,
    stands,
)
from tests.fakes.dialogue import Message
from tests.fakes.recorded import FOLDER

DATA: Final = FOLDER.parent
MULTIWOZ: Final = DATA / "C/ConvLab+ConvLab-2/data/multiwoz/val.json.zip"
#: Of github.com/thu-coai/CrossWOZ, Apache-2.0.
CROSSWOZ: Final = Path("C/thu-coai+CrossWOZ/data/crosswoz/val.json.zip")
SGD: Final = DATA / "C/google-research-datasets+dstc8-schema-guided-dialogue/dev"
_EMPTY: Final = frozenset({"", "none", "?", "yes", "no", "dontcare", "是", "否", "无"})
_ACCEPTED: Final = frozenset({("OFFER", "SELECT"), ("CONFIRM", "AFFIRM")})


@dataclass(frozen=True)
class AnnotatedChat:
    """A chat of texts alone.

    Attributes:
        name: Unlike any other of its set.
        told: Values that each of the assistant's messages told, by its place.
        accepted: Those that the user's next message accepted.
    """

    name: str
    messages: Sequence[Message]
    told: Mapping[int, Sequence[str]]
    accepted: Mapping[int, Sequence[str]]


@cache
def multiwoz() -> Sequence[AnnotatedChat]:
    """MultiWOZ's validation dialogues."""
    dialogues = _read_zip(MULTIWOZ)
    return [
        _chat(
            f"multiwoz {name}",
            (
                (turn["text"], [value for acts in turn["dialog_act"].values() for _, value in acts])
                for turn in dialogue["log"]
            ),
        )
        for name, dialogue in dialogues.items()
    ]


@cache
def crosswoz(path: Path) -> Sequence[AnnotatedChat]:
    """CrossWOZ's validation dialogues; the user speaks first in each."""
    return [
        _chat(
            f"crosswoz {name}",
            (
                (
                    message["content"],
                    [act[3] for act in message["dialog_act"] if act[0] != "Request"],
                )
                for message in dialogue["messages"]
            ),
        )
        for name, dialogue in _read_zip(path).items()
    ]


@cache
def sgd() -> Sequence[AnnotatedChat]:
    """SGD's development dialogues, what was said alone."""
    return [
        _chat(
            f"sgd {dialogue['dialogue_id']}",
            ((turn["utterance"], _values(turn)) for turn in dialogue["turns"]),
            _accepted_values(dialogue["turns"]),
        )
        for file in sorted(SGD.glob("dialogues_*.json"))
        for dialogue in orjson.loads(file.read_bytes())
    ]


def in_fours(chats: Sequence[AnnotatedChat]) -> Sequence[AnnotatedChat]:
    """Four chats in a row as one, of one user with four errands; none both held back and not."""
    parts = [[chat for chat in chats if is_held_back(chat.name) == side] for side in (False, True)]
    return [
        _in_a_row(part[start : start + 4]) for part in parts for start in range(0, len(part) - 3, 4)
    ]


def named_again(chats: Sequence[AnnotatedChat]) -> Iterator[ChatCase]:
    """Cases of what only the assistant said, and anybody names later."""
    for chat in chats:
        for now in call_places(chat.messages):
            later = joined_text(chat.messages[now:])
            values = [v for place, told in chat.told.items() if place < now for v in told]
            told = _risky(chat, now, values)
            needed = [value for value in told if stands(later, value)]
            yield from _case(chat, now, needed, told)


def named_before(chats: Sequence[AnnotatedChat]) -> Iterator[ChatCase]:
    """Cases of long chats: what only the assistant said and anybody named again, up to the call."""
    for chat in chats:
        now = call_places(chat.messages)[-1]
        values = {
            value: joined_text(chat.messages[place + 1 :])
            for place, told in reversed(list(chat.told.items()))
            for value in told
            if place < now
        }
        again = [value for value, later in values.items() if stands(later, plain(value))]
        yield from _case(chat, now, _risky(chat, now, again))


def accepted_proposals(chats: Sequence[AnnotatedChat]) -> Iterator[ChatCase]:
    """Cases of what the assistant proposed and the user accepted."""
    for chat in chats:
        for now in call_places(chat.messages):
            values = [v for place, told in chat.accepted.items() if place < now for v in told]
            yield from _case(chat, now, _risky(chat, now, values))


def _in_a_row(chats: Sequence[AnnotatedChat]) -> AnnotatedChat:
    messages: list[Message] = []
    told: dict[int, Sequence[str]] = {}
    accepted: dict[int, Sequence[str]] = {}
    for chat in chats:
        by = len(messages)
        messages += chat.messages
        told |= {place + by: values for place, values in chat.told.items()}
        accepted |= {place + by: values for place, values in chat.accepted.items()}
    return AnnotatedChat(chats[0].name, messages, told, accepted)


def _risky(chat: AnnotatedChat, now: int, values: Sequence[str]) -> list[str]:
    return at_risk(chat.messages, now, values, by_assistant=True)


def _case(
    chat: AnnotatedChat, now: int, needed: Sequence[str], told: Sequence[str] | None = None
) -> Iterator[ChatCase]:
    """A case, if anything is needed.

    Args:
        told: All that the assistant told, where what is needed is not known yet.
    """
    if needed:
        yield ChatCase(
            name=chat.name,
            messages=chat.messages[:now],
            needed=[(value,) for value in needed],
            class_values=None if told is None else lambda: told,
        )


def _chat(
    name: str,
    turns: Iterator[tuple[str, Sequence[str]]],
    accepted: Mapping[int, Sequence[str]] | None = None,
) -> AnnotatedChat:
    """A chat in which user and assistant take turns."""
    messages: list[Message] = []
    told = {}
    for index, (text, values) in enumerate(turns):
        messages.append({"role": ("user", "assistant")[index % 2], "content": text})
        if index % 2:
            told[index] = [v for v in values if plain(str(v)) not in _EMPTY and len(v) > 1]
    return AnnotatedChat(name, messages, told, accepted or {})


def _values(turn: Mapping[str, Any]) -> list[str]:
    return [
        value
        for frame in turn["frames"]
        for action in frame["actions"]
        for value in action["values"]
    ]


def _accepted_values(turns: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """The values of what was offered or asked to confirm, where the user's answer accepts it."""
    accepted = {}
    for index, (turn, answer) in enumerate(pairwise(turns)):
        acts = {action["act"] for frame in answer["frames"] for action in frame["actions"]}
        values = [
            value
            for frame in turn["frames"]
            for action in frame["actions"]
            for value in action["values"]
            if any((action["act"], act) in _ACCEPTED for act in acts)
        ]
        if index % 2 and values:
            accepted[index] = [v for v in values if plain(v) not in _EMPTY and len(v) > 1]
    return accepted


def _read_zip(path: Path) -> Mapping[str, Any]:
    with ZipFile(BytesIO(path.read_bytes())) as archive:
        decoded: Mapping[str, Any] = orjson.loads(archive.read(archive.namelist()[0]))
    return decoded
