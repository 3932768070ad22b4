"""Caches tools and instructions, which call after call sends again before its conversation."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.prefix.prediction.sent import TextLines, leading_lines
from proxy.prefix.prompts.bare import digest_without_marks, without_marks
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.prompt import BlockJson, Fingerprint, Prompt, PromptBlock, leading_blocks
from proxy.prefix.prompts.recent import LruCache

#: Bytes of a block and of a text's lines besides their fingerprints, about.
_BLOCK: Final = 250
_TEXT: Final = 300
_Key = tuple[Fingerprint, int, int, tuple[int, int] | None]


class SharedPrefix(msgspec.Struct, frozen=True):
    """What stands before a conversation.

    Attributes:
        blocks: Its blocks.
        bare: The same without marks.
        lines: The lines of each text, by index of its block.
        may_mark: Whether there can be a mark in a tool.
    """

    blocks: Sequence[PromptBlock]
    bare: Sequence[PromptBlock]
    lines: Mapping[int, TextLines]
    may_mark: bool

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        lines = sum(_TEXT + len(each.digests) * 2 for each in self.lines.values())
        return _BLOCK * len(self.blocks) + lines


class SharedPrefixIndex:
    """Recently read tools and instructions; none of their words.

    They are known by Python's own hash, whose secret is the process's.

    Args:
        room: Bytes for all of them, about.
    """

    def __init__(self, room: int = 16 * 2**20) -> None:
        self._known: LruCache[_Key, SharedPrefix] = LruCache(room, lambda found: found.size)

    def __len__(self) -> int:
        return len(self._known)

    def read_prefix(self, prompt: Prompt, fingerprint: Fingerprint, first: int) -> SharedPrefix:
        """What stands in a prompt before its message ``first``.

        Raises:
            Unplannable: If a message cannot be read, or their parts are too many.
        """
        key = (fingerprint, hash(prompt.tools), hash(prompt.messages[:first]), prompt.semi)
        return self._known.get_or_make(key, lambda: _read(prompt, fingerprint, first))


def _read(prompt: Prompt, fingerprint: Fingerprint, first: int) -> SharedPrefix:
    found = tuple(leading_blocks(prompt, fingerprint, first))
    pieces = BlockJson(prompt)
    known = [digest_without_marks(pieces.of(block), fingerprint) for block in found]
    lines = leading_lines(prompt, found, fingerprint)
    return SharedPrefix(
        found, tuple(without_marks(found, known)), lines, any(map(may_mark, prompt.tools))
    )
