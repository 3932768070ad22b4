"""What planning has to know of a message, read once: a conversation sends most of its own again."""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from proxy.prefix.conversation import opened
from proxy.prefix.marks import may_mark
from proxy.prefix.prompt import Fingerprint, Reading, Unplannable, is_exact, parts, read
from proxy.prefix.tags import tagged

_decoded = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_Key = tuple[Fingerprint, int, int]


class Readings:
    """What was read of messages lately; each takes some 350 bytes, and none of its words.

    A message is known by its team and Python's own hash of it, whose secret is the process's.

    Args:
        most: Messages remembered.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._half = max(1, most // 2)
        self._known: dict[_Key, Reading] = {}
        self._older: dict[_Key, Reading] = {}
        self._opened: OrderedDict[_Key, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known.keys() | self._older.keys())

    def of(self, fingerprint: Fingerprint, messages: Sequence[bytes]) -> list[Reading]:
        """What is known of each message of the team with this fingerprint.

        Raises:
            Unplannable: If one cannot be read, or not be written again as it is.
        """
        found = []
        for message in messages:
            key = fingerprint, hash(message), len(message)
            found.append(self._known.get(key) or self._read(key, message))
        return found

    def opening(self, fingerprint: Fingerprint, message: bytes) -> bytes:
        """What ``conversation.opened`` says of a message.

        Raises:
            Unplannable: If it cannot be read.
        """
        key = fingerprint, hash(message), len(message)
        found = self._opened.get(key)
        if found is None:
            found = self._opened[key] = opened(message, fingerprint)
        self._opened.move_to_end(key)
        while len(self._opened) > self._half:
            self._opened.popitem(last=False)
        return found

    def _read(self, key: _Key, message: bytes) -> Reading:
        found = self._older.get(key) or _reading(key[0], message)
        if len(self._known) >= self._half:
            self._older, self._known = self._known, {}
        self._known[key] = found
        return found


def _reading(fingerprint: Fingerprint, message: bytes) -> Reading:
    role = read(message).role
    found = _members(message)
    content = bytes(found.get("content", b"null"))
    if not is_exact(message, found) or (content[:1] == b"[" and not _exact(content)):
        raise Unplannable("a key of a message stands twice or is escaped")
    return Reading(role, fingerprint(message), may_mark(message), tagged(message))


def _exact(content: bytes) -> bool:
    """Whether no key of a part stands twice or is escaped."""
    objects = [part for part in parts(msgspec.Raw(content)) if part[:1] == b"{"]
    return all(is_exact(part, _members(part)) for part in objects)


def _members(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _decoded(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unplannable(f"not an object: {error}") from None
