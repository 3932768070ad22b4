"""Content blocks while they are written, each with the events that it makes.

Source: Anthropic, streaming messages (2026-11).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.answer_reader import Event
from proxy.providers.chat.call_parts import arguments_object, is_json_object
from proxy.providers.lenient import decode_or
from proxy.providers.messages.body import Json
from proxy.providers.messages.signatures import own_signature

#: Type of a block's deltas, and the member with their text.
_DELTAS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
_block: Final = msgspec.json.Decoder(dict[str, Any]).decode


class OutputBlock:
    """A block that is being written.

    Attributes:
        kind: Its type; "" for a block of another provider, which comes whole.
        signature: The provider's own, of reasoning; "" signs with ours.
    """

    def __init__(self, index: int, opening: Json, *, shown: bool = True) -> None:
        """Begin a block.

        Args:
            index: Its place in the message.
            opening: The block as its first event shows it.
            shown: False keeps reasoning in its signature alone.
        """
        self.kind: str = opening["type"]
        self.signature = ""
        self._index = index
        self._opening = opening
        self._shown = shown
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The words, reasoning or arguments up to now."""
        return "".join(self._pieces)

    @property
    def is_complete(self) -> bool:
        """True if its text, as arguments of a call, is a whole JSON object."""
        return is_json_object(self.text)

    def start(self) -> Event:
        """The event that opens it."""
        return self._event("content_block_start", content_block=self._opening)

    def write(self, text: str) -> Iterator[Event]:
        """The events of further text; none where it is not shown."""
        self._pieces.append(text)
        if self._shown:
            kind, member = _DELTAS[self.kind]
            yield self._event("content_block_delta", delta={"type": kind, member: text})

    def close(self) -> Iterator[Event]:
        """The events that end it; the signature of reasoning comes last."""
        if self.kind == "thinking":
            signature = {"type": "signature_delta", "signature": self._final_signature()}
            yield self._event("content_block_delta", delta=signature)
        yield self._event("content_block_stop")

    def whole(self) -> Json:
        """The block as it stands in an answer that is no stream."""
        if self.kind == "text":
            return {"type": "text", "text": self.text}
        if self.kind == "tool_use":
            return self._opening | {"input": arguments_object(self.text)}
        if self.kind == "thinking":
            shown = self.text if self._shown else ""
            return {"type": "thinking", "thinking": shown, "signature": self._final_signature()}
        return self._opening

    def _final_signature(self) -> str:
        return self.signature or own_signature("" if self._shown else self.text)

    def _event(self, kind: str, **members: Json) -> Event:
        return {"type": kind, "index": self._index, **members}


def text_block(index: int) -> OutputBlock:
    """A block of words."""
    return OutputBlock(index, {"type": "text", "text": ""})


def thinking_block(index: int, *, shown: bool, signature: str = "") -> OutputBlock:
    """A block of reasoning."""
    opening = {"type": "thinking", "thinking": "", "signature": ""}
    block = OutputBlock(index, opening, shown=shown)
    block.signature = signature
    return block


def tool_use_block(index: int, name: str, tool: str) -> OutputBlock:
    """A block of a call with this id."""
    return OutputBlock(index, {"type": "tool_use", "id": name, "name": tool, "input": {}})


def opaque_block(index: int, block: Json) -> OutputBlock:
    """A block of another provider that the caller must send back as it is."""
    opaque = OutputBlock(index, block)
    opaque.kind = ""
    return opaque


def read_opaque(raw: Raw) -> Json | None:
    """A block of ``thinking_blocks`` as an object; None where it is none."""
    return decode_or(_block, raw, None)
