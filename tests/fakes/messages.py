"""Messages, tools and texts that made-up workloads are put together from."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache

import orjson

from tests.fakes.handbook import handbook, passages, question
from tests.fakes.workloads import Json

#: When a made-up conversation's clocks start.
_EPOCH = 1_790_000_000.0
_TEXT = {"type": "string"}
_PICTURE = "data:image/png;base64,iVBORw0KGgo="


def said(role: str, content: object) -> Json:
    """A message."""
    return {"role": role, "content": content}


def tool_call(number: object, name: str, **arguments: object) -> Json:
    """An answer that calls a tool."""
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


def tool_result(number: object, content: str) -> Json:
    """Return what the tool gave back."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


def tool(name: str, says: str) -> Json:
    """The definition of a tool."""
    schema = {"type": "object", "properties": {"path": _TEXT, "words": _TEXT}}
    return {
        "type": "function",
        "function": {"name": name, "description": says, "parameters": schema},
    }


@cache
def tools(count: int = 8, seed: str = "tools") -> Sequence[Json]:
    """So many definitions of some 130 tokens each."""
    return tuple(
        tool(f"{seed}_{index}", handbook(1, f"{seed}/{index}").replace("## 1. ", ""))
        for index in range(count)
    )


def picture(words: str, seed: object) -> list[Json]:
    """Content with a text and an image; no two seeds show the same one."""
    url = f"{_PICTURE[:-1]}{abs(hash_of(seed)) % 10**8:08d}="
    return [
        {"type": "text", "text": words},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
    ]


def hash_of(seed: object) -> int:
    """A number that is the same in every process."""
    return int.from_bytes(str(seed).encode()[-6:], "big") * 2_654_435_761 % 2**31


def clock(number: int) -> str:
    """The time, another one for each number."""
    when = datetime.fromtimestamp(_EPOCH + 37 * number, UTC)
    return f"Current time: {when:%A, %d %B %Y, %H:%M:%S} UTC"


def environment(seed: object, number: int) -> str:
    """Return what an agent's surroundings look like, another way each time; some 150 tokens."""
    rows = "\n".join(f"{name}: {hash_of(f'{seed}{number}{name}')}" for name in ("head", "diff"))
    return (
        f"<environment>\n{clock(number)}\n{rows}\n{passages(f'{seed}/{number}', 1)}\n</environment>"
    )


def reminder(seed: object, number: int) -> str:
    """A reminder whose words change with each call; some 60 tokens."""
    return f"<reminder>Step {number}. {question(f'{seed}/{number}')}</reminder>"


def output(seed: object, size: int = 3) -> str:
    """Return what a tool prints: some 90 tokens for each of ``size``."""
    return passages(f"output {seed}", size)
