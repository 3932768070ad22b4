"""Parts of conversations to take notes on."""

from typing import Any

import orjson

from compaction.facts.fact import Region
from compaction.facts.region_contents import RegionContents, read_region
from compaction.reading.message_parser import parse_message
from compaction.reading.turns import split_units


def of(
    *turns: dict[str, Any], start: int = 0, kept_indexes: frozenset[int] = frozenset()
) -> RegionContents:
    messages = tuple(parse_message(orjson.dumps(message)) for message in turns)
    region = Region(
        messages=messages,
        units=split_units(messages),
        start=start,
        end=len(messages),
        kept=kept_indexes,
    )
    return read_region(region)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(name: str, arguments: str, ident: str = "c1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"id": ident, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def result(text: str, ident: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": text}


#: Two turns: a booking looked up, a change agreed on.
BOOKING = (
    {"role": "system", "content": "Be brief."},
    user("I am Mia Li. Never book basic economy. I want to move booking W7GHI8 to 2024-05-17."),
    calls("get_booking", '{"id": "W7GHI8"}'),
    result('{"id": "W7GHI8", "flight": "HAT012", "price": 412.50, "note": "M\\u00fcnchen"}'),
    says("I found flight HAT012 at 412.50. Shall I move it to 2024-05-17?"),
    user("Yes, and pay with the card ending in 4421 because the voucher expired."),
    says("I will pay with the card ending in 4421. The seat map must still be checked."),
)
