"""Tool results that a harness without tool calls of the API's sends in the user's role.

The model writes what it wants done in plain text, the harness answers as if a user spoke. Such an
answer is known by what frames it and by the command right before it; a person who pastes the same
with no command before it stays a user.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from compaction.reading.message import Called, Message, Voice

#: The command in an assistant's words; None for none.
Asked = Callable[[str], Called | None]
#: An assistant message and the one after it, as call and result; None where they are not.
Framed = Callable[[Message, Message], tuple[Message, Message] | None]

#: How much of an end is looked at, and how long a tool's name may be.
_END: Final = 2_000
_NAME: Final = 64
_FENCE: Final = "```"

_function = re.compile(r"<function=([\w.-]{1,64})>").match
_invoke = re.compile(r'<invoke name="([\w.-]{1,64})">').match


class _Asking(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_asking = msgspec.json.Decoder(_Asking).decode


def framed(said: Message, told: Message) -> tuple[Message, Message] | None:
    """The two as a call and its result; None where the second is a person's."""
    for asked in _asks(told.text):
        called = asked(said.text)
        if called is not None:
            calling = msgspec.structs.replace(said, calls=(called,))
            return calling, msgspec.structs.replace(told, voice=Voice.RESULT)
    return None


def voiced(messages: Sequence[Message], pair: Framed = framed) -> tuple[Message, ...]:
    """The messages, those of a harness given the voice of a result and what asked for it its call.

    What is said of a message rests on those up to the one after it: a command has its call once
    its result is there. From the first tool call of the API's on, user messages are users'.

    Args:
        messages: As ``read`` gives them, from the first on.
        pair: ``framed``, or what remembers what that said.
    """
    found = list(messages)
    said = None
    for at, told in enumerate(messages):
        if told.calls:
            break
        if said is not None and told.voice is Voice.USER and is_framed(told.text):
            both = pair(said, told)
            if both is not None:
                found[at - 1 : at + 1] = both
        said = told if told.voice is Voice.ASSISTANT else None
    return tuple(found)


def is_framed(text: str) -> bool:
    """True if a text looks like a result; what comes before it decides."""
    return text.startswith(_OPENINGS) or text[-8:].rstrip().endswith("bash-$")


def _asks(text: str) -> Iterator[Asked]:
    """In what forms the command may stand before a result like this."""
    for opening, asks in _FRAMES:
        if text.startswith(opening):
            yield from asks
    if text[-_END:].rstrip().endswith("bash-$") and "(Current directory: " in text[-_END:]:
        yield from (_fenced, _tagged("command"))
    if text.startswith("["):
        name = text[1 : _NAME + 1].partition(" for '")[0]
        if name.isidentifier() and "] Result:" in text[:_END]:
            yield _tagged(name)


def _fenced(text: str) -> Called | None:
    """The last fenced block, without the name of its language."""
    end = text.rfind(_FENCE)
    start = text.rfind(_FENCE, 0, max(0, end))
    if start < 0:
        return None
    first, line_end, rest = text[start + len(_FENCE) : end].partition("\n")
    language = first.strip()
    body = rest if line_end else first
    return Called("", _LANGUAGES.get(language, "shell"), body.strip("\n"))


def _coded(text: str) -> Called | None:
    """The last fenced block of a message that says it is to be run."""
    return _fenced(text) if "Code:\n```" in text else None


def _tagged(name: str) -> Asked:
    """What stands between the last tags of this name."""
    opening, closing, called = f"<{name}>", f"</{name}>", _TAGS.get(name, name)

    def asked(text: str) -> Called | None:
        body = _between(text, opening, closing)
        return None if body is None else Called("", called, body.strip())

    return asked


def _between(text: str, opening: str, closing: str) -> str | None:
    """What the last such pair holds, or what follows its opening where the model stopped there."""
    start = text.rfind(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return text[start:] if end < 0 else text[start:end]


def _named_tag(opening: str, closing: str, named: Callable[..., re.Match[str] | None]) -> Asked:
    """The last of the tags that hold the tool's name."""

    def asked(text: str) -> Called | None:
        start = text.rfind(opening)
        found = named(text, start) if start >= 0 else None
        if found is None:
            return None
        end = text.find(closing, found.end())
        body = text[found.end() :] if end < 0 else text[found.end() : end]
        return Called("", found.group(1), body.strip())

    return asked


def _acted(text: str) -> Called | None:
    """The last ``Action:`` line and its input."""
    _, found, after = f"\n{text}".rpartition("\nAction:")
    if not found:
        return None
    name, _, asked = after.partition("\n")
    asked = asked.strip().removeprefix("Action Input:").strip()
    return Called("", name.strip()[:_NAME], asked)


def _hermes(text: str) -> Called | None:
    """The last ``<tool_call>``, JSON within."""
    body = _between(text, "<tool_call>", "</tool_call>")
    if body is None:
        return None
    try:
        asking = _asking(body)
        return Called("", asking.name, bytes(asking.arguments).decode())
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Called("", "tool", body.strip())


#: What tools are called whose tags are known, and blocks by their language.
_TAGS: Final = {
    "command": "shell",
    "execute_bash": "shell",
    "execute_command": "shell",
    "execute_ipython": "python",
    "execute_browse": "browse",
}
_LANGUAGES: Final = {"py": "python", "python": "python"}

_by_function: Final = _named_tag("<function=", "</function>", _function)
_by_invoke: Final = _named_tag("<invoke ", "</invoke>", _invoke)
_openhands: Final = (
    _tagged("execute_bash"),
    _tagged("execute_ipython"),
    _tagged("execute_browse"),
    _by_function,
)
#: How results begin, and the forms of what asked for them.
#: Sources: recorded runs of SWE-agent and OpenHands (`OBSERVATION:`, `bash-$`); OpenHands'
#: conversion of calls to text (`EXECUTION RESULT of`); mini-swe-agent, config/default.yaml;
#: ReAct (arXiv 2210.03629) and smolagents (`Observation:`); the Hermes format (`<tool_response>`);
#: Anthropic's XML tools of 2023 (`<function_results>`); Cline (`[… for '…'] Result:`). 2026-11.
_FRAMES: Final[tuple[tuple[tuple[str, ...], tuple[Asked, ...]], ...]] = (
    (("OBSERVATION:", "Old environment output:"), (*_openhands, _fenced, _tagged("command"))),
    (("EXECUTION RESULT of [",), _openhands),
    (("<returncode>", "<exception>", "The last command <command>"), (_fenced,)),
    (("Observation:",), (_acted, _coded)),
    (("<tool_response>",), (_hermes, _by_function)),
    (("<function_results>",), (_by_invoke, _tagged("invoke"))),
)
_OPENINGS: Final = ("[", *(opening for openings, _ in _FRAMES for opening in openings))
