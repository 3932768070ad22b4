"""Conversations in TOML whose texts mark what must be found again after compaction.

Each line is a message: ``S:`` system, ``U:`` user, ``A:`` assistant, ``C:`` a call, ``R:`` its
result. ``{{…}}`` is a standing wish, ``[[…]]`` a value that later turns need, ``[[+…]]`` a proposal
that the user accepted.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.fakes.dialogue import Message

_MARK: Final = re.compile(r"\{\{(?P<wish>.+?)\}\}|\[\[(?P<plus>\+?)(?P<value>.+?)\]\]")
_ROLES: Final = {"S": "system", "U": "user", "A": "assistant", "C": "assistant", "R": "tool"}
TWINS: Final = Path(__file__).with_name("twin_conversations.toml")
WORK: Final = Path(__file__).with_name("work_conversations.toml")


@dataclass(frozen=True)
class MarkedValue:
    """A value that must be found again.

    Attributes:
        value: As the message writes it.
        role: Of the message: user, assistant or tool.
        place: The message's place.
        is_accepted: True for a proposal of the assistant that the user accepted.
    """

    value: str
    role: str
    place: int
    is_accepted: bool = False


@dataclass(frozen=True)
class MarkedConversation:
    """A conversation that ends with the live request.

    Attributes:
        name: The language or the kind of work.
        wishes: The user's standing wishes, as written.
        values: What later turns need.
    """

    name: str
    messages: Sequence[Message]
    wishes: Sequence[str]
    values: Sequence[MarkedValue]


@cache
def twins() -> Mapping[str, MarkedConversation]:
    """The conversations in nineteen languages, by language."""
    return {talk.name: talk for talk in _conversations(TWINS)}


@cache
def work() -> Mapping[str, MarkedConversation]:
    """A shop, a help desk, a bank and a coding agent."""
    return {talk.name: talk for talk in _conversations(WORK)}


def _conversations(path: Path) -> Iterator[MarkedConversation]:
    for name, text in tomllib.loads(path.read_text(encoding="utf8")).items():
        lines = [line for line in text.split("\n") if line]
        marks = [
            (place, role, mark)
            for place, line in enumerate(lines)
            for role in [_ROLES[line[0]]]
            for mark in _MARK.finditer(line)
        ]
        yield MarkedConversation(
            name=name,
            messages=[_message(line, place) for place, line in enumerate(lines)],
            wishes=[mark["wish"] for _, _, mark in marks if mark["wish"]],
            values=[
                MarkedValue(_value(mark, role), role, place, is_accepted=_is_accepted(mark, role))
                for place, role, mark in marks
                if not mark["wish"]
            ],
        )


def _message(line: str, place: int) -> Message:
    kind, _, marked = line.partition(": ")
    role = _ROLES[kind]
    text = _MARK.sub(lambda mark: mark["wish"] or _value(mark, role), marked)
    if kind == "C":
        name, _, arguments = text.partition(" ")
        function = {"name": name, "arguments": arguments}
        call = {"id": f"call_{place}", "type": "function", "function": function}
        return {"role": role, "content": None, "tool_calls": [call]}
    if kind == "R":
        text = text.replace("\\n", "\n")
        return {"role": role, "tool_call_id": f"call_{place - 1}", "content": text}
    return {"role": role, "content": text}


def _is_accepted(mark: re.Match[str], role: str) -> bool:
    return bool(mark["plus"]) and role == "assistant"


def _value(mark: re.Match[str], role: str) -> str:
    """The marked text; a plus is part of it but in what the assistant proposed."""
    return str(mark["value"] if _is_accepted(mark, role) else mark["plus"] + mark["value"])
