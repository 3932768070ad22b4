"""Bounds of a case: what no choice of text can pass at the tokens that facts take.

What rules demand stands first: the last turns, as compaction keeps them, and users' standing
wishes; without a target all that users said. The rest of the tokens may hold any sentence of what
was said, and any line or value of what tools returned or were called with, word for word.

- *any choice*: whoever knows what later turns need. A piece of text is charged to the needs in it
  by equal shares, and each need takes its cheapest share; so no choice keeps more.
- *its class*: whoever knows only the class of such values, as all flight numbers and ids, and keeps
  as many of those as there is room for.
- *users whole*: any choice, where all that users said stands first to a target, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Final

import orjson

from compaction.facts.statements import directives
from compaction.language.sentences import sentences
from tests.bench.compaction.cases import ChatCase, Need, plain, stands
from tests.bench.compaction.measuring import CaseMeasure, tokenizer
from tests.fakes.dialogue import Message, words

#: Tokens of a piece's line end.
_LINE_TOKENS: Final = 1
_AUTHORITY: Final = frozenset({"system", "developer"})


@dataclass(frozen=True, kw_only=True)
class CaseBound:
    """Needs of a case that can be kept.

    Attributes:
        any_choice: The most that any choice keeps.
        by_class: Those among as many values of their class as there is room for.
        users_whole: The most that any choice keeps beside all that users said.
    """

    any_choice: int
    by_class: int
    users_whole: int


@dataclass(frozen=True)
class _Beside:
    """Needs that texts which stand first leave open, the number of the others, and the room."""

    needed: Sequence[Need]
    given: int
    room: int
    text: str


@dataclass(frozen=True)
class _Pieces:
    """Pieces of text with their tokens and the values in each; the places of each value."""

    tokens: Sequence[int]
    values: Sequence[frozenset[str]]
    places: Mapping[str, Sequence[int]]


def case_bound(case: ChatCase, measured: CaseMeasure, share: float, target: int) -> CaseBound:
    """The bounds of a case at the tokens that facts take, or may take.

    Args:
        measured: What facts make of it.
        share: The part of the conversation's tokens that it was to come down to; 0 for none.
        target: Tokens of the whole prompt, instead; 0 for none.
    """
    has_target = bool(share or target)
    conversation = [message for message in case.messages if message["role"] not in _AUTHORITY]
    start = len(conversation) - measured.suffix
    spoken = [words(m) for m in conversation[:start] if m["role"] == "user"]
    standing = [rule for text in spoken for rule in directives(text)] if has_target else spoken
    room = max(measured.after, round(share * measured.before)) - measured.suffix_tokens
    last = [words(message) for message in conversation[start:]]
    beside = _beside(case.needed, standing, last, room)
    beside_users = _beside(case.needed, spoken, last, room)
    old = [m for m in conversation[:start] if has_target or m["role"] != "user"]
    named = {value for need in beside.needed for value in need}
    values = case.class_values() if case.class_values is not None else ()
    of_class = named | {value for value in values if not stands(beside.text, value)}
    pieces = _pieces(old, named)
    return CaseBound(
        any_choice=_most_needs(pieces, beside),
        by_class=_needs_by_class(_pieces(old, of_class), beside),
        users_whole=_most_needs(pieces, beside_users),
    )


def _beside(
    needed: Sequence[Need], standing: Sequence[str], last: Sequence[str], room: int
) -> _Beside:
    """The needs and the room beside texts that stand first, and the last messages."""
    text = "\n".join(map(plain, [*standing, *last]))
    left = [need for need in needed if not all(stands(text, value) for value in need)]
    room -= sum(tokenizer()(text) + _LINE_TOKENS for text in standing)
    return _Beside(left, len(needed) - len(left), room, text)


def _most_needs(pieces: _Pieces, beside: _Beside) -> int:
    """The number of needs that are given, or whose cheapest shares fit the room."""
    needed, room = beside.needed, float(beside.room)
    uses = [0] * len(pieces.tokens)
    for need in needed:
        for place in {place for value in need for place in pieces.places.get(value, ())}:
            uses[place] += 1
    shares = sorted(_share(pieces, uses, need) for need in needed)
    kept = beside.given
    for share in shares:
        room -= share
        if room < 0:
            break
        kept += 1
    return kept


def _share(pieces: _Pieces, uses: Sequence[int], need: Need) -> float:
    """The least tokens that a need is charged: one piece with all of it, or one for each value."""

    def share(place: int) -> float:
        return pieces.tokens[place] / uses[place]

    places = [pieces.places.get(value, ()) for value in need]
    if not all(places):
        return float("inf")
    both = set(places[0]).intersection(*places[1:])
    apart = sum(min(map(share, each)) for each in places)
    return min([apart, *map(share, both)])


def _needs_by_class(pieces: _Pieces, beside: _Beside) -> int:
    """The number of needs that are given, or stand once the room is full of their class.

    The piece with most new values per token is next; of equal ones the newest.
    """
    room = beside.room
    kept: set[str] = set()
    heap = [
        (-len(values) / tokens, -place)
        for place, (values, tokens) in enumerate(zip(pieces.values, pieces.tokens, strict=True))
    ]
    heapify(heap)
    while heap:
        worth, place = heappop(heap)
        values, tokens = pieces.values[-place], pieces.tokens[-place]
        new = -len(values - kept) / tokens
        if tokens > room or not new:
            continue
        if new > worth:
            heappush(heap, (new, place))
            continue
        room -= tokens
        kept |= values
    return beside.given + sum(kept.issuperset(need) for need in beside.needed)


def _pieces(messages: Iterable[Message], values: set[str]) -> _Pieces:
    """The pieces of messages that hold any of the values."""
    count = tokenizer()
    tokens: list[int] = []
    found: list[frozenset[str]] = []
    places: dict[str, list[int]] = {}
    for message in messages:
        text = plain(words(message))
        here = {value for value in values if value in text and stands(text, value)}
        pieces = {piece: _among(piece, here) for piece in _message_pieces(message)} if here else {}
        split = here - {value for held in pieces.values() for value in held}
        for piece, held in (*pieces.items(), (words(message), frozenset(split))):
            if held:
                for value in held:
                    places.setdefault(value, []).append(len(tokens))
                tokens.append(count(piece) + _LINE_TOKENS)
                found.append(held)
    return _Pieces(tokens, found, places)


def _among(piece: str, values: Iterable[str]) -> frozenset[str]:
    text = plain(piece)
    return frozenset(value for value in values if stands(text, value))


def _message_pieces(message: Message) -> Iterator[str]:
    """The sentences or lines of a message, and the fields of a result or a call."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content)
    is_result = message["role"] == "tool"
    fields = list(_fields(content)) if is_result else []
    yield from fields or (content.splitlines() if is_result else sentences(content))
    for call in message.get("tool_calls") or ():
        arguments = call["function"]["arguments"]
        yield from _fields(arguments) or arguments.splitlines()


def _fields(text: str) -> Sequence[str]:
    """The values within a JSON text, whose names a table may say once; none of another."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return ()
    return tuple(_leaves(value)) if isinstance(value, dict | list) else ()


def _leaves(value: Any) -> Iterator[str]:  # whatever JSON there is
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield str(value)
