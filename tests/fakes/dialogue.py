"""Dialogues with what their later calls need."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

Message = dict[str, Any]
#: Between two spellings of one value.
SPELT = "\x1f"
#: The values that each call of a message names; a value is of a kind ("value", "path", "name").
Needs = tuple[tuple[tuple[str, str], ...], ...]

_PATH = re.compile(
    r"(?:[\w.~-]*/)+[\w.-]*\w|\b[\w-]+\.(?:py|txt|md|c|h|ts|js|json|toml|cfg|rst|sh)\b"
)
#: With an underscore, a capital within, or a bracket behind.
_NAME = re.compile(r"\b(?=\w*_\w|\w*[a-z]\w*[A-Z])[A-Za-z_]\w{3,}\b|\b[A-Za-z_]\w{3,}(?=\()")


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """A conversation and what its calls need.

    Attributes:
        name: Unlike any other of its set.
        messages: In OpenAI's form, the system's first where there is one.
        needs: What the message at an index asks for, by call.
        results: Which messages a tool gave back, whatever role they came in.
        tools: Definitions of tools.
        tasks: The task that each message is part of, where several are told by turns.
    """

    name: str
    messages: Sequence[Message]
    needs: Mapping[int, Needs]
    results: frozenset[int]
    tools: Sequence[Mapping[str, Any]] = field(default=())
    tasks: Sequence[str] = field(default=())

    @property
    def turns(self) -> list[int]:
        """The indexes of the messages of a user."""
        return [
            index
            for index, message in enumerate(self.messages)
            if message["role"] == "user" and index not in self.results
        ]


def words(message: Message) -> str:
    """All that a message says: its text, then its calls, a line each."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content)
    calls = [
        f"{call['function']['name']} {call['function']['arguments']}"
        for call in message.get("tool_calls") or ()
    ]
    return "\n".join([content, *calls] if content else calls)


def leaves(value: object) -> Iterator[str]:
    """The strings and numbers within a JSON value, two characters or more each."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from leaves(element)
    elif not isinstance(value, bool) and value is not None and len(str(value)) > 1:
        yield str(value)


def argument_values(messages: Sequence[Message]) -> dict[int, Needs]:
    """The leaf values of the arguments of each call."""
    return {
        index: tuple(
            tuple(("value", leaf) for leaf in dict.fromkeys(leaves(_arguments(call))))
            for call in message["tool_calls"]
        )
        for index, message in enumerate(messages)
        if message.get("tool_calls")
    }


def names_in(text: str) -> tuple[tuple[str, str], ...]:
    """The paths and identifiers of an action."""
    paths = dict.fromkeys(path.rstrip(".") for path in _PATH.findall(text))
    rest = _PATH.sub(" ", text)
    names = dict.fromkeys(_NAME.findall(rest))
    return (
        *(("path", path) for path in paths if len(path) > 3),
        *(("name", name) for name in names),
    )


def given_back(messages: Sequence[Message]) -> frozenset[int]:
    """The messages of role tool."""
    return frozenset(index for index, message in enumerate(messages) if message["role"] == "tool")


def _arguments(call: Mapping[str, Any]) -> object:
    try:
        return orjson.loads(call["function"]["arguments"])
    except orjson.JSONDecodeError:
        return call["function"]["arguments"]
