"""What stands before conversations, read once: tools and instructions come with call after call."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.prefix.prediction.sent import Lines, told
from proxy.prefix.prompts.bare import unmarked, without
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.prompt import Block, Fingerprint, Pieces, Prompt, front
from proxy.prefix.prompts.recent import Recent

#: Bytes of a block and of a text's lines besides their fingerprints, about.
_BLOCK: Final = 250
_TEXT: Final = 300
_Key = tuple[Fingerprint, int, int, tuple[int, int] | None]


class Front(msgspec.Struct, frozen=True):
    """What stands before a conversation.

    Attributes:
        blocks: Its blocks.
        bare: The same without marks.
        lines: The lines of each text, by index of its block.
        may_mark: Whether there can be a mark in a tool.
    """

    blocks: Sequence[Block]
    bare: Sequence[Block]
    lines: Mapping[int, Lines]
    may_mark: bool

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        lines = sum(_TEXT + len(each.digests) * 2 for each in self.lines.values())
        return _BLOCK * len(self.blocks) + lines


class Fronts:
    """What was read lately of tools and instructions; none of their words.

    They are known by Python's own hash, whose secret is the process's.

    Args:
        room: Bytes for all of them, about.
    """

    def __init__(self, room: int = 16 * 2**20) -> None:
        self._known: Recent[_Key, Front] = Recent(room, lambda found: found.size)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, prompt: Prompt, fingerprint: Fingerprint, first: int) -> Front:
        """What stands in a prompt before its message ``first``.

        Raises:
            Unplannable: If a message cannot be read, or their parts are too many.
        """
        key = (fingerprint, hash(prompt.tools), hash(prompt.messages[:first]), prompt.semi)
        return self._known.of(key, lambda: _read(prompt, fingerprint, first))


def _read(prompt: Prompt, fingerprint: Fingerprint, first: int) -> Front:
    found = tuple(front(prompt, fingerprint, first))
    pieces = Pieces(prompt)
    known = [without(pieces.of(block), fingerprint) for block in found]
    lines = told(prompt, found, fingerprint)
    return Front(found, tuple(unmarked(found, known)), lines, any(map(may_mark, prompt.tools)))
