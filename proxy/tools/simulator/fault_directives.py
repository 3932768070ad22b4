"""Directives for single calls: faults, and what the simulated model answers.

A cue is ``name`` or ``name=value``; several are joined by commas. They come from the header
``x-simulator-fault``, from ``[[fault:…]]`` in the text of a closing user message, from the
upstream's own script (one entry per call), or from the model's name after a plus sign
(``gpt-5.5+death``). What all calls to a model suffer until they are let be comes on top.

``[[call:Read {"path": "a.txt"}]]`` in a user's text has the model call that tool, once the caller
offers it. Several are called one after the other, each once the result of the one before has come
back, so that an agent runs a whole tool loop; then the model answers in prose.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

#: Every cue that is not an HTTP status, and what it does.
NAMES: Mapping[str, str] = {
    "ok": "nothing",
    "quota": "429 whose quota is spent, which no retry mends",
    "html": "502 with a proxy's HTML page",
    "hang": "not even headers, ever",
    "silence": "headers, then nothing, ever",
    "keepalives": "keep-alives only, without end; with a value that many, then the answer",
    "stall": "nothing more, ever, after that many content events (2)",
    "slow": "everything takes that many times as long (10); of several, all together",
    "death": "the connection is reset after that many content events (2); half of a JSON body",
    "death-before-content": "the connection is reset after the headers",
    "short": "the answer ends cleanly after that many content events (2), unfinished",
    "error-event": "an error payload after that many content events (2), then the end",
    "opening-error": "an error payload right after the events that open a stream, then the end",
    "malformed": "the event after that many content events (2) is broken JSON; half a JSON body",
    "no-blank-line": "that content event (2) and the next are not parted by a blank line",
    "no-done": "the stream's closing marker is left out",
    "crlf": "lines end in CR LF",
    "split": "chunks of 1 to 7 bytes; the value is a seed (0)",
    "letters": "the text comes in runs of 1 to 7 letters; the value is a seed (0)",
    "no-usage": "the answer does not say what it used",
    "double-usage": "a stream says it twice",
    "early-usage": "a stream says it, in part, in the middle, and in full at the end",
    "zero-usage": "the answer says it used nothing",
    "call": "the answer calls that tool (the first one); more than one is called in parallel",
    "offered-call": "the answer calls that tool if the caller offers it",
    "args": "the arguments of that call, as base64url of JSON; of several calls, in their order",
    "refuse": "the model refuses",
    "words": "the answer is about that many words long",
}
_TEXT = re.compile(r"\[\[fault:([^\]]*)\]\]")
_CALL = re.compile(r"\[\[call:([\w.:/-]{1,128})\s*")
#: Bytes of a body that directs a tool call.
DIRECTED_CALL = b"[[call:"
#: Types of blocks and items that call a tool, in the Messages and the Responses API.
_CALLING_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call"})


class _ToolStep(NamedTuple):
    """A tool call that a text directs, and its place in it."""

    name: str
    arguments: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FaultDirectives:
    """The cues of one call, in order."""

    entries: tuple[tuple[str, str], ...] = ()

    def __contains__(self, name: str) -> bool:
        return any(entry == name for entry, _ in self.entries)

    def __add__(self, other: "FaultDirectives") -> "FaultDirectives":
        return FaultDirectives(self.entries + other.entries)

    def values(self, name: str) -> tuple[str, ...]:
        """Each value given to that cue; "" where it stood alone."""
        return tuple(value for entry, value in self.entries if entry == name)

    def number(self, name: str, default: float) -> float:
        """The first value given to that cue; the default where it stood alone or is absent."""
        value = next(iter(self.values(name)), "")
        return float(value) if value else default

    @property
    def status(self) -> int:
        """The HTTP status to refuse with; 0 for none."""
        return next((int(name) for name, _ in self.entries if name.isdigit()), 0)


def parse_directives(text: str) -> FaultDirectives:
    """The cues that text names; none for "".

    Raises:
        ValueError: If a name is unknown, the value of one that takes a number is none, or that of
            ``args`` is not JSON.
    """
    entries = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in NAMES and not (name.isdigit() and 400 <= int(name) <= 599):
            raise ValueError(f"The simulator knows no fault {name!r}; see fault_directives.NAMES.")
        if value and name == "args":
            decode_arguments(value)
        elif value and name not in {"call", "offered-call"}:
            float(value)
        entries.append((name, value))
    return FaultDirectives(tuple(entries))


def decode_arguments(value: str) -> str:
    """The arguments of a call, which an ``args`` cue has as base64url.

    Raises:
        ValueError: If it is not JSON.
    """
    text = urlsafe_b64decode(value + "=" * (-len(value) % 4))
    return orjson.dumps(orjson.loads(text)).decode()


def with_directives(text: str) -> FaultDirectives:
    """The cues written into a user's text."""
    return parse_directives(",".join(_TEXT.findall(text)))


def without_directives(text: str) -> str:
    """The text without its cues."""
    for step in reversed([*_tool_steps(text)]):
        text = text[: step.start] + text[step.end :]
    return _TEXT.sub("", text).strip()


def next_tool_call(body: Mapping[str, Any]) -> FaultDirectives:
    """The directed tool call whose turn it is; none where all are made, or none is directed.

    As many were made as assistant's turns called tools since the text that directs them.
    """
    messages = body.get("messages", body.get("input"))
    calls = 0
    for message in reversed(messages if isinstance(messages, list) else [messages]):
        steps = [*_tool_steps(closing_text({"messages": [message]}))]
        if steps:
            return _offered_call(steps[calls]) if calls < len(steps) else FaultDirectives()
        calls += _calls_tools(message)
    return FaultDirectives()


def _offered_call(step: _ToolStep) -> FaultDirectives:
    arguments = urlsafe_b64encode(step.arguments.encode()).decode().rstrip("=")
    return FaultDirectives((("offered-call", step.name), ("args", arguments)))


def _calls_tools(message: object) -> bool:
    """True if a message or an item of one of the APIs calls a tool."""
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    types = {block.get("type") for block in (*blocks, message) if isinstance(block, dict)}
    return bool(message.get("tool_calls") or types & _CALLING_TYPES)


def _tool_steps(text: str) -> Iterator[_ToolStep]:
    """The tool calls that a text directs, in order; those with broken JSON are left out."""
    for match in _CALL.finditer(text):
        arguments, end = "{}", match.end()
        if text.startswith("{", end):
            try:
                _, end = json.JSONDecoder().raw_decode(text, end)
            except (ValueError, RecursionError):
                continue
            arguments = text[match.end() : end]
        if text.startswith("]]", end):
            yield _ToolStep(match[1], arguments, match.start(), end + 2)


def closing_text(body: Mapping[str, Any]) -> str:
    """The text of the last message if it is a user's; "" if somebody else spoke last.

    A cue counts only there, so a growing conversation does not repeat it with every call.
    """
    content = body.get("messages", body.get("input", body.get("prompt", "")))
    if isinstance(content, list) and content:
        content = content[-1]
    if isinstance(content, dict):
        content = content.get("content", "") if content.get("role") == "user" else ""
    if isinstance(content, list):
        content = " ".join(_part_text(part) for part in content)
    return content if isinstance(content, str) else ""


def _part_text(part: object) -> str:
    text = part.get("text", "") if isinstance(part, dict) else ""
    return text if isinstance(text, str) else ""
