"""Blocks as a cache compares them: without marks, and equal where a mark changed how text is put.

A mark moves on with each call, and a text that carries one must stand in a part of its own; the
prefix is the same for all that.
"""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from proxy.prefix.prompt import Block, Fingerprint, Pieces, Prompt, Unplannable

_MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})


class Bare:
    """Blocks without their marks; what was worked out for a block is remembered.

    A block takes some 300 bytes.

    Args:
        most: Blocks remembered.
    """

    def __init__(self, most: int = 50_000) -> None:
        self._most = most
        self._known: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def blocks(
        self, prompt: Prompt, blocks: tuple[Block, ...], fingerprint: Fingerprint
    ) -> tuple[Block, ...]:
        """The blocks with the sizes and fingerprints of what stands in them besides marks.

        Raises:
            Unplannable: If a message cannot be read.
        """
        found = []
        pieces = Pieces(prompt)
        for block in blocks:
            known = self._known.get(block.digest)
            if known is None:
                known = self._known[block.digest] = _read(pieces.of(block), block, fingerprint)
            self._known.move_to_end(block.digest)
            size, digest = known
            if digest == block.digest:
                found.append(block)
            else:
                place = block.role, block.slot, block.message, block.part
                found.append(Block(*place, size, digest))
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return tuple(found)


def _read(whole: bytes, block: Block, fingerprint: Fingerprint) -> tuple[int, bytes]:
    """The size and the fingerprint of a block without its marks."""
    plain = bare(whole)
    return len(plain), block.digest if plain == whole else fingerprint(plain)


def raw_of(prompt: Prompt, block: Block) -> bytes:
    """The JSON of a block.

    Raises:
        Unplannable: If its message cannot be read.
    """
    return Pieces(prompt).of(block)


def bare(raw: bytes) -> bytes:
    """The JSON of a block without marks, written one way; a lone text part is its text.

    Raises:
        Unplannable: If it is no JSON.
    """
    try:
        found = msgspec.json.decode(raw)
        return msgspec.json.encode(_text(_block(found)))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Unplannable(f"not a block: {error}") from None


def _block(found: Any) -> Any:  # noqa: ANN401 - any JSON there is
    if not isinstance(found, dict):
        return found
    kept = {name: value for name, value in found.items() if name not in _MARKS}
    content = kept.get("content")
    if isinstance(content, list):
        pieces = [_block(part) for part in content]
        kept["content"] = _text(pieces[0]) if len(pieces) == 1 else pieces
    return kept


def _text(found: Any) -> Any:  # noqa: ANN401 - any JSON there is
    plain = isinstance(found, dict) and found.keys() == {"type", "text"}
    return found["text"] if plain and found["type"] == "text" else found
