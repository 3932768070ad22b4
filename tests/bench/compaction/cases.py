"""A case: a conversation as it is sent at one call, and what the rest of it needs of it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import combinations
from typing import Final

from tests.fakes.dialogue import SPELT, Dialogue, Message, words

#: Turns that compaction leaves as they are.
KEEP_TURNS: Final = 3
#: Where a dialogue is cut: after these shares of its users' turns.
_SHARES: Final = (0.6, 0.8)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_SPACE: Final = re.compile(r"[\s¶]+")
#: Letters below this code point belong to scripts that part words by blanks.
_MAX_SPACED_SCRIPT: Final = 0x0590
#: Most pairs of one call.
_MAX_PAIRS: Final = 100
#: One value, or two that one line has to hold.
Need = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ChatCase:
    """A conversation at one call.

    Attributes:
        name: Of its dialogue.
        messages: As they are sent, the live request last.
        needed: Values that later turns need, or pairs of them.
        class_values: Returns all values of their class that stand in the old part alone; None where
            the conversation so far tells which are needed.
    """

    name: str
    messages: Sequence[Message]
    needed: Sequence[Need]
    class_values: Callable[[], Iterable[str]] | None = None


def is_held_back(name: str) -> bool:
    """True for a third of all dialogues, by name: nobody tunes by those."""
    return sha256(name.encode()).digest()[0] % 3 == 0


def sample(names: Iterable[str], most: int) -> list[str]:
    """The names, at most so many, drawn by their hashes."""
    return sorted(names, key=lambda name: sha256(name.encode()).digest()[1:])[:most]


@lru_cache(maxsize=32_768)
def plain(text: str) -> str:
    """The text in lower case without escapes; runs of white space are one blank."""
    bare = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    return _SPACE.sub(" ", bare.replace("\\", "")).casefold()


def stands(text: str, value: str) -> bool:
    """True if one spelling of the value stands in the plain text as a whole."""
    return any(_stands_whole(text, spelling) for spelling in value.split(SPELT) if spelling)


def _stands_whole(text: str, value: str) -> bool:
    position = text.find(value)
    while position >= 0:
        end = position + len(value)
        before, after = text[position - 1 : position] if position else "", text[end : end + 1]
        if not _goes_on(before, value[0]) and not _goes_on(value[-1], after):
            return True
        position = text.find(value, position + 1)
    return False


def _goes_on(one: str, other: str) -> bool:
    """True if two neighbours are of one word or number; words of some scripts have no borders."""
    if not one or not other or not one.isalnum() or not other.isalnum():
        return False
    if one.isdigit() and other.isdigit():
        return True
    return ord(one) < _MAX_SPACED_SCRIPT and ord(other) < _MAX_SPACED_SCRIPT


def user_turns(messages: Sequence[Message]) -> list[int]:
    """The places of users' messages."""
    return [index for index, message in enumerate(messages) if message["role"] == "user"]


def call_places(messages: Sequence[Message]) -> list[int]:
    """The calls that are looked at: behind a user's message, some turns from both ends."""
    turns = user_turns(messages)
    chosen = dict.fromkeys(int(share * len(turns)) for share in _SHARES)
    return [turns[number] + 1 for number in chosen if number + 1 > KEEP_TURNS]


def old_part(messages: Sequence[Message], now: int) -> tuple[int, int]:
    """Start and end of the messages before the last turns, the system's left out."""
    turns = [turn for turn in user_turns(messages) if turn < now]
    return turns[0], turns[-KEEP_TURNS]


def joined_text(messages: Iterable[Message]) -> str:
    """The plain text of some messages."""
    return "\n".join(plain(words(message)) for message in messages)


def at_risk(
    messages: Sequence[Message], now: int, values: Iterable[str], *, by_assistant: bool = False
) -> list[str]:
    """The values that stand in the old part alone.

    Args:
        by_assistant: True for those that no user named, either.
    """
    start, end = old_part(messages, now)
    old = joined_text(messages[start:end])
    rest = joined_text([*messages[:start], *messages[end:now]])
    users = (message for message in messages[start:end] if message["role"] == "user")
    spoken = joined_text(users) if by_assistant else ""
    return [
        value
        for value in dict.fromkeys(map(plain, values))
        if stands(old, value) and not stands(rest, value) and not stands(spoken, value)
    ]


def later_values(dialogue: Dialogue, now: int) -> list[str]:
    """The values that a dialogue's calls name from a message on."""
    return [
        value
        for place, needs in dialogue.needs.items()
        if place >= now
        for need in needs
        for _, value in need
    ]


def pairs(messages: Sequence[Message], values: Sequence[str]) -> Iterator[Need]:
    """Pairs of values that one message holds."""
    texts = [plain(words(message)) for message in messages]
    where = {
        value: {index for index, text in enumerate(texts) if stands(text, value)}
        for value in values
    }
    found = (pair for pair in combinations(values, 2) if where[pair[0]] & where[pair[1]])
    yield from list(found)[:_MAX_PAIRS]
