"""Content blocks while they are written, each with the events that it makes.

Source: Anthropic, streaming messages (2026-11).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from proxy.providers.chat.call_parts import arguments_object, is_json_object
from proxy.providers.lenient import decode_or
from proxy.providers.messages.body import Json
from proxy.providers.messages.signatures import own_signature

Event = dict[str, Any]
_block = msgspec.json.Decoder(dict[str, Any]).decode


class OpenBlock(ABC):
    """The block that is being written."""

    def __init__(self, index: int) -> None:
        self.index = index

    def start(self) -> Event:
        """The event that opens it."""
        return {
            "type": "content_block_start",
            "index": self.index,
            "content_block": self._opening(),
        }

    def close(self) -> Iterator[Event]:
        """The events that end it."""
        yield {"type": "content_block_stop", "index": self.index}

    def whole(self) -> Json:
        """The block as it stands in an answer that is no stream."""
        return self._opening()

    @abstractmethod
    def _opening(self) -> Json:
        """The block as its first event shows it."""

    def _delta(self, **delta: str) -> Event:
        return {"type": "content_block_delta", "index": self.index, "delta": delta}


class TextOutput(OpenBlock):
    """Words."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._pieces: list[str] = []

    def write(self, words: str) -> Event:
        """The event of further words."""
        self._pieces.append(words)
        return self._delta(type="text_delta", text=words)

    def whole(self) -> Json:
        """The block with all its words."""
        return {"type": "text", "text": "".join(self._pieces)}

    def _opening(self) -> Json:
        return {"type": "text", "text": ""}


class ThinkingOutput(OpenBlock):
    """Reasoning, shown or kept in its signature alone.

    Attributes:
        signature: The provider's own; "" signs with ours.
    """

    def __init__(self, index: int, *, shown: bool) -> None:
        super().__init__(index)
        self.signature = ""
        self._shown = shown
        self._pieces: list[str] = []

    @property
    def words(self) -> str:
        """The reasoning up to now."""
        return "".join(self._pieces)

    def think(self, words: str) -> Iterator[Event]:
        """The events of further reasoning; none where it is not shown."""
        self._pieces.append(words)
        if self._shown:
            yield self._delta(type="thinking_delta", thinking=words)

    def close(self) -> Iterator[Event]:
        """The signature, then the end."""
        yield self._delta(type="signature_delta", signature=self._final_signature())
        yield from super().close()

    def whole(self) -> Json:
        """The block with its signature."""
        shown = self.words if self._shown else ""
        return {"type": "thinking", "thinking": shown, "signature": self._final_signature()}

    def _final_signature(self) -> str:
        return self.signature or own_signature("" if self._shown else self.words)

    def _opening(self) -> Json:
        return {"type": "thinking", "thinking": "", "signature": ""}


class OpaqueOutput(OpenBlock):
    """A block of another provider that the caller must send back as it is."""

    def __init__(self, index: int, block: Json) -> None:
        super().__init__(index)
        self._block = block

    def _opening(self) -> Json:
        return self._block


class ToolUseOutput(OpenBlock):
    """A call of a tool."""

    def __init__(self, index: int, name: str, tool: str) -> None:
        super().__init__(index)
        self._id = name
        self._tool = tool
        self._pieces: list[str] = []

    def write(self, arguments: str) -> Event:
        """The event of further arguments."""
        self._pieces.append(arguments)
        return self._delta(type="input_json_delta", partial_json=arguments)

    @property
    def is_complete(self) -> bool:
        """True if the arguments are a whole JSON object."""
        return is_json_object("".join(self._pieces))

    def whole(self) -> Json:
        """The call with its input; what is no JSON object is wrapped, not lost."""
        return self._opening() | {"input": arguments_object("".join(self._pieces))}

    def _opening(self) -> Json:
        return {"type": "tool_use", "id": self._id, "name": self._tool, "input": {}}


def read_opaque(raw: Raw) -> Json | None:
    """A block of ``thinking_blocks`` as an object; None where it is none."""
    return decode_or(_block, raw, None)
