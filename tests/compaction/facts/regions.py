"""Regions of conversations, for tests."""

import json
from typing import Any

from compaction.facts.fact import Region
from compaction.facts.region_contents import RegionContents, read_region
from compaction.reading.message_parser import parse_message
from compaction.reading.turns import split_units

#: A message, or several.
Said = dict[str, Any] | list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call_and_result(
    name: str, result: str, ref: str = "c1", **arguments: Any
) -> list[dict[str, Any]]:
    """A call and its result."""
    return raw_call_and_result(name, json.dumps(arguments), result, ref)


def raw_call_and_result(
    name: str, arguments: str, result: str, ref: str = "c1"
) -> list[dict[str, Any]]:
    """A call with arguments as they are written, and its result."""
    function = {"name": name, "arguments": arguments}
    call = {"id": ref, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ref, "content": result},
    ]


def region(*turns: Said, **fields: Any) -> Region:
    """The region of all these messages; ``start``, ``end`` and the like as they are given."""
    flat = [one for turn in turns for one in (turn if isinstance(turn, list) else [turn])]
    messages = tuple(parse_message(json.dumps(message).encode()) for message in flat)
    return Region(
        messages=messages,
        units=split_units(messages),
        **{"start": 0, "end": len(messages), **fields},
    )


def read_contents(*turns: Said, **fields: Any) -> RegionContents:
    return read_region(region(*turns, **fields))


def texts(facts: Any) -> list[str]:
    return [fact.text for fact in facts]
