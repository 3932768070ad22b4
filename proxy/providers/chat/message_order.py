"""A whole chat message in pieces, in the order of the model.

Source: OpenAI API reference, Responses, output items (2026-11).
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from proxy.providers.chat.block_order import (
    PLACES,
    Content,
    entry_kind,
    restore_order,
    without_number,
)
from proxy.providers.chat.call_parts import CallPart, number_calls
from proxy.providers.chat.chat_chunk import Delta
from proxy.providers.lenient import decode_or


class _Thought(msgspec.Struct):
    thinking: str = ""


_thought = msgspec.json.Decoder(_Thought).decode


def in_order(message: Delta) -> Iterator[Delta]:
    """The pieces of the message in order; itself alone where the order is unknown.

    Reasoning comes from the blocks themselves, where together they say what the message does. Calls
    are numbered.
    """
    if calls := message.calls:
        message = replace(message, tool_calls=number_calls(calls))
    entries = message.thinking_blocks or []
    content = _content(message, entries) if entries else None
    if (
        content is None
        or message.refusal
        or "".join(map(_thinking, entries)) != message.reasoning_text
    ):
        yield message
        return
    start = 0
    for piece in content:
        if isinstance(piece, Raw):
            yield Delta(thinking_blocks=[piece], reasoning_content=_thinking(piece))
        elif isinstance(part := piece.get("call"), CallPart):
            yield Delta(tool_calls=[part])
        else:
            yield _text_piece(message, start, piece["text"])
            start += len(piece["text"])


def blocks_of(entries: list[Raw]) -> list[Raw]:
    """The blocks of a delta as they were, without what tells where they or others stood."""
    return [without_number(raw) for raw in entries if entry_kind(raw) not in PLACES]


def _content(message: Delta, entries: list[Raw]) -> Content | None:
    """Text, calls and blocks in their order; None where that is unknown."""
    words = [{"text": message.text}] if message.text else []
    calls = [(part.id or "", {"call": part}) for part in message.tool_calls or ()]
    return restore_order(entries, words, calls)


def _text_piece(message: Delta, start: int, words: str) -> Delta:
    """Some of its words, with the notes on them."""
    within = range(start, start + len(words))
    notes = [
        note
        for note in message.annotations or ()
        if note.url_citation is not None and note.url_citation.start_index in within
    ]
    return Delta(content=words, annotations=notes)


def _thinking(block: Raw) -> str:
    """The text of a reasoning block; "" where it has none."""
    return decode_or(_thought, block, _Thought()).thinking
