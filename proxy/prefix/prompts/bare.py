"""Blocks as a cache compares them: without marks, and equal where a mark changed how text is put.

A mark moves on with each call, and a text that carries one must stand in a part of its own; the
prefix is the same for all that.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.prompt import Fingerprint, PromptBlock

_MARKS: Final = frozenset({"cache_control", "prompt_cache_breakpoint"})


def without_marks(
    blocks: Sequence[PromptBlock], known: Sequence[tuple[int, bytes] | None]
) -> Sequence[PromptBlock]:
    """The blocks with the size and fingerprint that each has without marks; None for its own."""
    if not any(known):
        return blocks
    return [
        block
        if one is None
        else PromptBlock(block.role, block.slot, block.message, block.part, *one)
        for block, one in zip(blocks, known, strict=True)
    ]


def digest_without_marks(whole: bytes, fingerprint: Fingerprint) -> tuple[int, bytes] | None:
    """The size and the fingerprint of a block's JSON without marks; None where it has none.

    Raises:
        Unplannable: If it is no JSON.
    """
    plain = bare_json(whole)
    return None if plain == whole else (len(plain), fingerprint(plain))


def bare_json(raw: bytes) -> bytes:
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
