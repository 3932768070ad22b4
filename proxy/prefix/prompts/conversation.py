"""The conversation that a call belongs to, and the chain of its messages; from the call alone.

::

    team, feature, key, session ─▶ values[0] ─ message 1 ─▶ values[1] ─ message 2 ─▶ values[2] …

Two calls share a value where everything said up to there is the same. Which conversation a chain
belongs to, ``proxy.prefix.conversations`` tells.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec

from proxy.prefix.prompts.fingerprints import bare_json
from proxy.prefix.prompts.objects import Unplannable, members
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    Fingerprint,
    MessageReading,
    Prompt,
    count_leading_roles,
)
from proxy.records.lru_cache import LruCache

#: Fields that hold still within a conversation and may tell two alike apart.
_HINTS: Final = ("prompt_cache_key", "session_id", "user", "safety_identifier")
#: The same within ``metadata``; Claude Code's ``user_id`` holds its session.
_METADATA: Final = ("conversation_id", "session_id", "thread_id", "user_id")
#: The same within ``client_metadata``, which Codex sends.
_CLIENT: Final = ("session_id", "session-id", "thread_id", "thread-id")
_HINT_FIELDS: Final = frozenset({*_HINTS, "metadata", "client_metadata"})
_NO_HINTS: Final = (b"",) * len((*_HINTS, *_METADATA, *_CLIENT))
#: Callers that are remembered.
_MAX_CALLERS: Final = 1_024
#: The length of a piece, eight bytes.
_LENGTH: Final = Struct(">Q")
#: Keys of an answer's thinking: clients send it again for a while, and leave it out later.
_THOUGHTS: Final = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks"}
)
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_REASONING: Final = b'"reasoning"'
_USUAL_MEMBERS: Final = ["role", "content"]
_DIGEST_BYTES: Final = 16
#: Bytes of a chain that is remembered, and of each of its messages.
_CHAIN_BYTES, _CHAIN_VALUE_BYTES = 1_000, 100
#: Messages at the end of a call that the next one may leave out or replace.
TAIL: Final = 3
#: Answers at the end of a call among which the one before it may have ended.
_MAX_LATEST_ANSWERS: Final = 4
#: Places at the beginning and at the end of a call where an earlier one may have ended.
_FIRST_PLACES, _LAST_PLACES = 8, 24


class ConversationChain(msgspec.Struct, frozen=True):
    """Digests of a caller's messages, as far as they tell conversations apart.

    Attributes:
        values: Stands for all that was said up to each message; first for nothing said.
        said: Fingerprint of each message's content.
        answers: Position of each answer: the number of messages before it, and before its end.
            Messages of the assistant that follow each other are one answer.
    """

    values: tuple[bytes, ...]
    said: tuple[bytes, ...] = ()
    answers: tuple[tuple[int, int], ...] = ()

    @property
    def whole(self) -> bytes:
        """The value of the whole call."""
        return self.values[-1]

    @property
    def beginning(self) -> bytes:
        """The value of what stands before its first answer: the whole call, where none came."""
        return self.values[next((begin for begin, _ in self.answers if begin), -1)]

    @property
    def places(self) -> Iterator[int]:
        """Number of messages before each answer, from the latest answer to the first."""
        return (begin for begin, _ in reversed(self.answers) if begin)

    def holds(self, value: bytes, length: int) -> bool:
        """True if it begins with so many messages that have this value."""
        return length < len(self.values) and self.values[length] == value

    def latest_answers(self) -> Iterator[bytes]:
        """The keys of its latest answers, from the last one back."""
        return map(self._answer_key, self.answers[: -_MAX_LATEST_ANSWERS - 1 : -1])

    def goes_on_from(self, whole: bytes, answer: bytes) -> bool:
        """True if it goes on from the call with this value, or answers this answer to it."""
        return whole in self.values or answer in map(self._answer_key, self.answers[:-1])

    def values_before(self, place: int) -> Iterator[bytes]:
        """Its values without the last one, two or three messages before a place.

        At least one message stays behind the answer before that.
        """
        before = max((end for _, end in self.answers if end <= place), default=0)
        least = max(before + 1, place - TAIL)
        return (self.values[index] for index in range(place - 1, least - 1, -1))

    def candidates(self) -> Iterator[bytes]:
        """The values under which its conversation may be kept, at most some forty."""
        yield self.whole
        places = list(self.places)
        some = places if len(places) <= _FIRST_PLACES + _LAST_PLACES else (
            *places[:_LAST_PLACES], *places[-_FIRST_PLACES:]
        )  # fmt: skip
        yield from (self.values[place] for place in some)
        for place in {*places[:1], *places[-1:]}:
            yield from self.values_before(place)

    def _answer_key(self, where: tuple[int, int]) -> bytes:
        """Stands for an answer of a conversation that began as this one did."""
        begin, end = where
        first = self.values[self.answers[0][0]]
        return blake2b(
            b"".join(self.said[begin:end]), key=first, digest_size=_DIGEST_BYTES
        ).digest()


class _HashedChain(NamedTuple):
    """The values of a call without its last messages, and the hash that they came from.

    Attributes:
        content_hash: Python's own hash of what its messages said.
        answers: The runs of answers among them.
    """

    values: tuple[bytes, ...]
    state: blake2b
    content_hash: int = hash(())
    answers: tuple[tuple[int, int], ...] = ()


class LatestChains:
    """The chains of the latest calls, which the next calls of their conversations go on from."""

    def __init__(self) -> None:
        self._chains: LruCache[tuple[bytes, ...], _HashedChain] = LruCache(
            weigh=lambda chain: _CHAIN_BYTES + _CHAIN_VALUE_BYTES * len(chain.values)
        )
        self.indexes: Sequence[LruCache[tuple[bytes, ...], Any]] = (self._chains,)

    def chain(
        self, base: bytes, contents: tuple[bytes, ...], roles: Sequence[str]
    ) -> ConversationChain:
        """The chain of messages that said so much, which tells their roles, too."""
        key = (base, *contents[:1])
        prefix = self._chains.get(key)
        if prefix is None or hash(contents[: len(prefix.values) - 1]) != prefix.content_hash:
            prefix = _HashedChain((base,), blake2b(key=base, digest_size=_DIGEST_BYTES))
        values, state = [*prefix.values], prefix.state.copy()
        before = len(values) - 1
        end = max(before, len(contents) - TAIL)
        _hash_messages(state, contents[before:end], values)
        answers = _answer_runs(roles[before:end], before, prefix.answers)
        prefix = _HashedChain(tuple(values), state.copy(), hash(contents[:end]), answers)
        self._chains.put(key, prefix)
        _hash_messages(state, contents[end:], values)
        return ConversationChain(tuple(values), contents, _answer_runs(roles[end:], end, answers))


def _hash_messages(state: blake2b, contents: Sequence[bytes], values: list[bytes]) -> None:
    update, digest = state.update, state.digest
    for says in contents:
        update(says)
        values.append(digest())


def conversation_chain(
    prompt: Prompt,
    readings: Sequence[MessageReading],
    who: Sequence[str],
    fingerprint: Fingerprint,
    latest: LatestChains | None = None,
) -> ConversationChain:
    """The chain of a call's messages, behind the instructions that lead them.

    ``who`` says whose it is: team, feature, key, and the names that its headers gave.
    """
    roles = [one.role for one in readings]
    first = count_leading_roles(roles)
    contents, roles = [one.says for one in readings[first:]], roles[first:]
    if b"" in contents:
        roles = [role for role, says in zip(roles, contents, strict=True) if says]
        contents = [*filter(None, contents)]
    hints = _caller_hints(prompt.fields)
    base = (_known_base if hints is _NO_HINTS else _chain_base)(fingerprint, tuple(who), hints)
    return (latest or LatestChains()).chain(base, tuple(contents), roles)


def _chain_base(fingerprint: Fingerprint, who: tuple[str, ...], hints: Sequence[bytes]) -> bytes:
    """Stands for a caller that said nothing yet."""
    return fingerprint(_join_pieces([*[name.encode(errors="replace") for name in who], *hints]))


#: Callers without hints seen lately, with the names that their headers gave.
_known_base = lru_cache(_MAX_CALLERS)(_chain_base)


def _answer_runs(
    roles: Sequence[str], first: int, before: tuple[tuple[int, int], ...]
) -> tuple[tuple[int, int], ...]:
    """The start and end of each run of answers; of messages from ``first`` on, and those before."""
    runs = [*before]
    for index, role in enumerate(roles, first):
        if role == ASSISTANT:
            begin = runs.pop()[0] if runs and runs[-1][1] == index else index
            runs.append((begin, index + 1))
    return tuple(runs)


def message_digest(
    message: bytes, fields: Mapping[str, bytes], fingerprint: Fingerprint
) -> bytes | None:
    """The fingerprint of what a message says; b"" for nothing, None where it is its bare own.

    The order of keys makes no difference, nor what is null, nor what an answer thought.
    """
    if "item" in fields:  # an item of the Responses API, which clients send again as they got it
        return b"" if fields.get("type") == _REASONING else None
    content = fields.get("content", b"")
    names = list(fields)
    if names == _USUAL_MEMBERS and content != b"null" and b'thinking"' not in content:
        return None
    is_plain = names == _member_order(names) and b"null" not in fields.values()
    if is_plain and _THOUGHTS.isdisjoint(names) and b'thinking"' not in content:
        return None
    bare_message = msgspec.json.decode(bare_json(message))
    remaining_fields = {
        name: bare_message[name] for name in _member_order(bare_message) if name not in _THOUGHTS
    }
    remaining_fields = {
        name: value for name, value in remaining_fields.items() if value is not None
    }
    if isinstance(remaining_fields.get("content"), list):
        remaining_fields["content"] = [
            part for part in remaining_fields["content"] if not _is_thought(part)
        ]
    return fingerprint(bare_json(msgspec.json.encode(remaining_fields)))


def _member_order(names: Sequence[str] | Mapping[str, object]) -> list[str]:
    """The usual order of a message's members: its role first, its content last."""
    return sorted(names, key=lambda name: (name != "role", name == "content", name))


def _is_thought(part: Any) -> bool:  # noqa: ANN401 - any JSON there is
    return isinstance(part, dict) and part.get("type") in _THINKING


def _join_pieces(pieces: Sequence[bytes]) -> bytes:
    """Pieces as one, so that where one ends makes a difference."""
    lengths = map(_LENGTH.pack, map(len, pieces))
    return b"".join(chain.from_iterable(zip(lengths, pieces, strict=True)))


def _caller_hints(fields: Mapping[str, bytes]) -> Sequence[bytes]:
    """The names that the caller gives the conversation, always as many pieces; b"" for null."""
    if _HINT_FIELDS.isdisjoint(fields):
        return _NO_HINTS
    metadata = _field_members(fields.get("metadata"))
    client = _field_members(fields.get("client_metadata"))
    hints = (*map(fields.get, _HINTS), *map(metadata.get, _METADATA), *map(client.get, _CLIENT))
    return [b"" if value is None or value == b"null" else value for value in hints]


def _field_members(raw: bytes | None) -> Mapping[str, bytes]:
    """The members of a field; none where it is no object."""
    try:
        return members(raw) if raw is not None else {}
    except Unplannable:
        return {}
