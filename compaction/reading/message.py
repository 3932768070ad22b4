"""One message of a chat, as far as compaction parses it; the caller's bytes stay unmodified."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec
import orjson

#: Returns the number of tokens in a text.
Count = Callable[[str], int]


class CannotCompactError(ValueError):
    """A value, message or conversation that is left unmodified; says why."""


class Voice(StrEnum):
    """Speaker of a message, whatever its role says."""

    AUTHORITY = "authority"  #: system, developer: never compacted, never moved, never reworded.
    USER = "user"  #: A person's own words.
    ASSISTANT = "assistant"  #: The model.
    RESULT = "result"  #: What a tool, or a harness in the user's role, gave back.


class CalledTool(msgspec.Struct, frozen=True, gc=False):
    """A tool call.

    Attributes:
        id: Call that its result answers; "" where calls are made in plain text.
        arguments: As the model wrote them: JSON, or plain text.
    """

    id: str
    name: str
    arguments: str


def parse_arguments(called: CalledTool) -> Any:  # noqa: ANN401 # whatever JSON the model wrote
    """A call's arguments as they were meant; None for none that can be read."""
    try:
        return orjson.loads(called.arguments)
    except ValueError:
        return None


class ParsedMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message; no cycle can pass through it, so the collector need not look at it.

    Attributes:
        raw: Its unmodified JSON.
        digest: 16 bytes that stand for what it says, however that is written and wherever a caller
            marks it for a cache.
        role: As it says.
        voice: Speaker of the message.
        name: Name of the speaker among several, as the caller gives it; "" for none.
        text: All its text parts, a line end between two; "" for none. What is no text in what a
            tool or the assistant said is named in brackets.
        calls: The tool calls it makes.
        answers: The id of the call it is the result of; "" for none.
        whole: True if text and calls are all it holds: no image, file, sound or unknown part.
        signed: True if it carries thinking, reasoning or another opaque item that is bound to its
            place: nothing before it may change.
        tokens: Tokens of it, all included.
    """

    raw: bytes
    digest: bytes
    role: str
    voice: Voice
    name: str = ""
    text: str = ""
    calls: tuple[CalledTool, ...] = ()
    answers: str = ""
    whole: bool = True
    signed: bool = False
    tokens: int = 0
