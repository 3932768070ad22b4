"""Finds tool calls and results that an agent writes as plain text, without the API's tool calls.

The model writes its command as text, and the agent answers in the user's role. A user's message
counts as a result only if its framing shows it and the command stands right before it; text that a
person pastes stays a user's message.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from compaction.reading.message import CalledTool, ParsedMessage, Voice

#: Returns the command in an assistant's text; None where there is none.
CallReader = Callable[[str], CalledTool | None]
#: Converts an assistant message and the next one to a call and its result; None where they are not.
PairReader = Callable[[ParsedMessage, ParsedMessage], tuple[ParsedMessage, ParsedMessage] | None]

#: Maximum characters scanned at a text's end, and maximum characters of a tool's name.
_SCANNED_END_CHARS: Final = 2_000
_MAX_TOOL_NAME_CHARS: Final = 64
_FENCE: Final = "```"

_function = re.compile(r"<function=([\w.-]{1,64})>").match
_invoke = re.compile(r'<invoke name="([\w.-]{1,64})">').match


class _HermesCall(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


_asking = msgspec.json.Decoder(_HermesCall).decode


def pair_call_with_result(
    caller: ParsedMessage, answer: ParsedMessage
) -> tuple[ParsedMessage, ParsedMessage] | None:
    """The two as a call and its result; None where the second is a person's."""
    for read_call in _call_readers(answer.text):
        called = read_call(caller.text)
        if called is not None:
            calling = msgspec.structs.replace(caller, calls=(called,))
            return calling, msgspec.structs.replace(answer, voice=Voice.RESULT)
    return None


def assign_voices(
    messages: Sequence[ParsedMessage], pair: PairReader = pair_call_with_result
) -> tuple[ParsedMessage, ...]:
    """The messages, those of a harness given the voice of a result and what asked for it its call.

    What is said of a message rests on those up to the one after it: a command has its call once
    its result is there. From the first tool call of the API's on, user messages are users'.

    Args:
        messages: As ``parse_message`` gives them, from the first on.
        pair: ``pair_call_with_result``, or what remembers what that said.
    """
    assigned = list(messages)
    caller = None
    for index, message in enumerate(messages):
        if message.calls:
            break
        if caller is not None and message.voice is Voice.USER and looks_like_result(message.text):
            both = pair(caller, message)
            if both is not None:
                assigned[index - 1 : index + 1] = both
        caller = message if message.voice is Voice.ASSISTANT else None
    return tuple(assigned)


def looks_like_result(text: str) -> bool:
    """True if a text looks like a result; what comes before it decides."""
    return text.startswith(_OPENINGS) or text[-8:].rstrip().endswith("bash-$")


def _call_readers(text: str) -> Iterator[CallReader]:
    """The readers for the forms of command that may stand before a result like this."""
    for opening, asks in _FRAMES:
        if text.startswith(opening):
            yield from asks
    if (
        text[-_SCANNED_END_CHARS:].rstrip().endswith("bash-$")
        and "(Current directory: " in text[-_SCANNED_END_CHARS:]
    ):
        yield from (_fenced_call, _tagged_call_reader("command"))
    if text.startswith("["):
        name = text[1 : _MAX_TOOL_NAME_CHARS + 1].partition(" for '")[0]
        if name.isidentifier() and "] Result:" in text[:_SCANNED_END_CHARS]:
            yield _tagged_call_reader(name)


def _fenced_call(text: str) -> CalledTool | None:
    """The last fenced block, without the name of its language."""
    end = text.rfind(_FENCE)
    start = text.rfind(_FENCE, 0, max(0, end))
    if start < 0:
        return None
    first, line_end, rest = text[start + len(_FENCE) : end].partition("\n")
    language = first.strip()
    body = rest if line_end else first
    return CalledTool("", _LANGUAGES.get(language, "shell"), body.strip("\n"))


def _code_call(text: str) -> CalledTool | None:
    """The last fenced block of a message that says it is to be run."""
    return _fenced_call(text) if "Code:\n```" in text else None


def _tagged_call_reader(name: str) -> CallReader:
    """A reader of the text between the last tags of this name."""
    opening, closing, called = f"<{name}>", f"</{name}>", _TAGS.get(name, name)

    def read_tagged_call(text: str) -> CalledTool | None:
        body = _text_between(text, opening, closing)
        return None if body is None else CalledTool("", called, body.strip())

    return read_tagged_call


def _text_between(text: str, opening: str, closing: str) -> str | None:
    """The text of the last such pair, or after its opening where the model stopped there."""
    start = text.rfind(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(closing, start)
    return text[start:] if end < 0 else text[start:end]


def _named_tag_reader(
    opening: str, closing: str, named: Callable[..., re.Match[str] | None]
) -> CallReader:
    """The last of the tags that hold the tool's name."""

    def read_named_call(text: str) -> CalledTool | None:
        start = text.rfind(opening)
        match = named(text, start) if start >= 0 else None
        if match is None:
            return None
        end = text.find(closing, match.end())
        body = text[match.end() :] if end < 0 else text[match.end() : end]
        return CalledTool("", match.group(1), body.strip())

    return read_named_call


def _action_call(text: str) -> CalledTool | None:
    """The last ``Action:`` line and its input."""
    _, separator, after = f"\n{text}".rpartition("\nAction:")
    if not separator:
        return None
    name, _, arguments = after.partition("\n")
    arguments = arguments.strip().removeprefix("Action Input:").strip()
    return CalledTool("", name.strip()[:_MAX_TOOL_NAME_CHARS], arguments)


def _hermes_call(text: str) -> CalledTool | None:
    """The last ``<tool_call>``, JSON within."""
    body = _text_between(text, "<tool_call>", "</tool_call>")
    if body is None:
        return None
    try:
        asking = _asking(body)
        return CalledTool("", asking.name, bytes(asking.arguments).decode())
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return CalledTool("", "tool", body.strip())


#: Names of tools whose tags are known, and of blocks by their language.
_TAGS: Final = {
    "command": "shell",
    "execute_bash": "shell",
    "execute_command": "shell",
    "execute_ipython": "python",
    "execute_browse": "browse",
}
_LANGUAGES: Final = {"py": "python", "python": "python"}

_by_function: Final = _named_tag_reader("<function=", "</function>", _function)
_by_invoke: Final = _named_tag_reader("<invoke ", "</invoke>", _invoke)
_openhands: Final = (
    _tagged_call_reader("execute_bash"),
    _tagged_call_reader("execute_ipython"),
    _tagged_call_reader("execute_browse"),
    _by_function,
)
#: Prefixes of results in text, with the readers of the calls before them.
#: Sources: recorded runs of SWE-agent and OpenHands (`OBSERVATION:`, `bash-$`); OpenHands'
#: conversion of calls to text (`EXECUTION RESULT of`); mini-swe-agent, config/default.yaml; ReAct
#: (arXiv 2210.03629) and smolagents (`Observation:`); the Hermes format (`<tool_response>`);
#: Anthropic's XML tools of 2023 (`<function_results>`); Cline (`[… for '…'] Result:`). 2026-11.
_FRAMES: Final[tuple[tuple[tuple[str, ...], tuple[CallReader, ...]], ...]] = (
    (
        ("OBSERVATION:", "Old environment output:"),
        (*_openhands, _fenced_call, _tagged_call_reader("command")),
    ),
    (("EXECUTION RESULT of [",), _openhands),
    (("<returncode>", "<exception>", "The last command <command>"), (_fenced_call,)),
    (("Observation:",), (_action_call, _code_call)),
    (("<tool_response>",), (_hermes_call, _by_function)),
    (("<function_results>",), (_by_invoke, _tagged_call_reader("invoke"))),
)
_OPENINGS: Final = ("[", *(opening for openings, _ in _FRAMES for opening in openings))
