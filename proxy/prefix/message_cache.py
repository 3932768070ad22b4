"""Caches readings of messages, as a conversation sends most of its messages again."""

from collections.abc import Sequence

import msgspec

from proxy.prefix.prediction.shared_prefixes import SharedPrefixIndex
from proxy.prefix.prompts.bare import digest_without_marks
from proxy.prefix.prompts.conversation import message_digest
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.objects import Unplannable, is_exact, members
from proxy.prefix.prompts.prompt import Fingerprint, MessageReading, content_parts, part_text
from proxy.prefix.prompts.tagged import may_hold_tags

_Key = tuple[Fingerprint, int]


class MessageCache:
    """Readings of recent messages: some 350 bytes each, none of their words.

    A message is known by its team and Python's own hash of it, whose secret is the process's.

    Args:
        most: Messages remembered.

    Attributes:
        fronts: What was read of tools and instructions.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._half = max(1, most // 2)
        self._known: dict[_Key, MessageReading] = {}
        self._older: dict[_Key, MessageReading] = {}
        self.fronts = SharedPrefixIndex()

    def __len__(self) -> int:
        return len(self._known.keys() | self._older.keys())

    def readings_of(
        self, fingerprint: Fingerprint, messages: Sequence[bytes]
    ) -> tuple[MessageReading, ...]:
        """The reading of each message of the team with this fingerprint.

        Raises:
            Unplannable: If one cannot be read, or not be written again as it is.
        """
        keys = [(fingerprint, hash(message)) for message in messages]
        known = map(self._known.get, keys)
        every = zip(known, keys, messages, strict=True)
        return tuple([one or self._read(key, raw) for one, key, raw in every])

    def _read(self, key: _Key, message: bytes) -> MessageReading:
        found = self._older.get(key) or read_message(key[0], message)
        if len(self._known) >= self._half:
            self._older, self._known = self._known, {}
        self._known[key] = found
        return found


def read_message(fingerprint: Fingerprint, message: bytes) -> MessageReading:
    """Read a message of the team with this fingerprint.

    Raises:
        Unplannable: If it cannot be read, or not be written again as it is.
    """
    found = members(message)
    role = part_text(found.get("role", b'""'))
    if role is None:
        raise Unplannable("not a message: its role is no text")
    content = found.get("content", b"null")
    if not is_exact(message, found) or (content[:1] == b"[" and not _exact(content)):
        raise Unplannable("a key of a message stands twice or is escaped")
    bare, digest = digest_without_marks(message, fingerprint), fingerprint(message)
    says = message_digest(message, found, fingerprint)
    if says is None:
        says = digest if bare is None else bare[1]
    return MessageReading(role, digest, may_mark(message), may_hold_tags(message), bare, says)


def _exact(content: bytes) -> bool:
    """True if no key of a part stands twice or is escaped."""
    objects = [part for part in content_parts(msgspec.Raw(content)) if part[:1] == b"{"]
    return all(is_exact(part, members(part)) for part in objects)
