"""What planning has to know of a message, read once: a conversation sends most of its own again."""

from collections.abc import Sequence

import msgspec

from proxy.prefix.prediction.shared_prefixes import Fronts
from proxy.prefix.prompts.bare import without
from proxy.prefix.prompts.conversation import spoken
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.objects import Unplannable, is_exact, members
from proxy.prefix.prompts.prompt import Fingerprint, Reading, parts, text
from proxy.prefix.prompts.tagged import tagged

_Key = tuple[Fingerprint, int]


class Readings:
    """What was read of messages lately; each takes some 350 bytes, and none of its words.

    A message is known by its team and Python's own hash of it, whose secret is the process's.

    Args:
        most: Messages remembered.

    Attributes:
        fronts: What was read of tools and instructions.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._half = max(1, most // 2)
        self._known: dict[_Key, Reading] = {}
        self._older: dict[_Key, Reading] = {}
        self.fronts = Fronts()

    def __len__(self) -> int:
        return len(self._known.keys() | self._older.keys())

    def of(self, fingerprint: Fingerprint, messages: Sequence[bytes]) -> tuple[Reading, ...]:
        """What is known of each message of the team with this fingerprint.

        Raises:
            Unplannable: If one cannot be read, or not be written again as it is.
        """
        keys = [(fingerprint, hash(message)) for message in messages]
        known = map(self._known.get, keys)
        every = zip(known, keys, messages, strict=True)
        return tuple([one or self._read(key, raw) for one, key, raw in every])

    def _read(self, key: _Key, message: bytes) -> Reading:
        found = self._older.get(key) or reading(key[0], message)
        if len(self._known) >= self._half:
            self._older, self._known = self._known, {}
        self._known[key] = found
        return found


def reading(fingerprint: Fingerprint, message: bytes) -> Reading:
    """What planning has to know of a message of the team with this fingerprint.

    Raises:
        Unplannable: If it cannot be read, or not be written again as it is.
    """
    found = members(message)
    role = text(found.get("role", b'""'))
    if role is None:
        raise Unplannable("not a message: its role is no text")
    content = found.get("content", b"null")
    if not is_exact(message, found) or (content[:1] == b"[" and not _exact(content)):
        raise Unplannable("a key of a message stands twice or is escaped")
    bare, digest = without(message, fingerprint), fingerprint(message)
    says = spoken(message, found, fingerprint)
    if says is None:
        says = digest if bare is None else bare[1]
    return Reading(role, digest, may_mark(message), tagged(message), bare, says)


def _exact(content: bytes) -> bool:
    """True if no key of a part stands twice or is escaped."""
    objects = [part for part in parts(msgspec.Raw(content)) if part[:1] == b"{"]
    return all(is_exact(part, members(part)) for part in objects)
