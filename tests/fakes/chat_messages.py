"""Conversations in the form of chat completions, said in a few words."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import orjson

_ids = count(1)


def chat_message(role: str, text: str) -> bytes:
    """A message of words alone."""
    return orjson.dumps({"role": role, "content": text})


def system(text: str) -> bytes:
    return chat_message("system", text)


def user(text: str) -> bytes:
    return chat_message("user", text)


def assistant(text: str) -> bytes:
    return chat_message("assistant", text)


def tool_call_and_result(
    name: str, arguments: Mapping[str, Any], result: object, id_: str = ""
) -> list[bytes]:
    """A tool call and its result."""
    return parallel_tool_calls([(name, arguments, result)], id_)


def parallel_tool_calls(
    calls: Iterable[tuple[str, Mapping[str, Any], object]], id_: str = ""
) -> list[bytes]:
    """Calls made at once, and their results."""
    every = [(id_ or f"call_{next(_ids)}", *pair) for pair in calls]
    tool_calls = [
        {
            "id": id_,
            "type": "function",
            "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
        }
        for id_, name, arguments, _ in every
    ]
    first = orjson.dumps({"role": "assistant", "content": None, "tool_calls": tool_calls})
    return [first, *(_result(id_, name, result) for id_, name, _, result in every)]


def _result(id_: str, name: str, result: object) -> bytes:
    text = result if isinstance(result, str) else orjson.dumps(result).decode()
    return orjson.dumps({"role": "tool", "tool_call_id": id_, "name": name, "content": text})


def client_requests(messages: list[bytes]) -> list[list[bytes]]:
    """The requests of a conversation, call by call: each holds all messages before an answer."""
    requests = []
    for index, raw in enumerate(messages):
        if orjson.loads(raw)["role"] == "assistant" and index:
            requests.append(messages[:index])
    return [*requests, messages]
