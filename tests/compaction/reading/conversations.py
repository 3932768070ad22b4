"""Conversations for tests, as messages and as JSON."""

import json
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from compaction.reading.message import ParsedMessage
from compaction.reading.message_parser import parse_message


def raws(chat: Iterable[dict[str, object]]) -> list[bytes]:
    return [json.dumps(one).encode() for one in chat]


def messages(chat: Iterable[dict[str, object]]) -> list[ParsedMessage]:
    return [parse_message(raw) for raw in raws(chat)]


def system(text: str = "Be brief.") -> dict[str, object]:
    return {"role": "system", "content": text}


def user(text: str = "Please") -> dict[str, object]:
    return {"role": "user", "content": text}


def assistant(text: str = "Yes") -> dict[str, object]:
    return {"role": "assistant", "content": text}


def tool_calls(*names: str) -> dict[str, object]:
    function = {"name": "f", "arguments": "{}"}
    calls = [{"id": name, "type": "function", "function": function} for name in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(name: str, text: str = "done") -> dict[str, object]:
    return {"role": "tool", "tool_call_id": name, "content": text}


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> Sequence[dict[str, object]]:
    """A user message and all that answers it; the results of one message in any order."""
    exchange = [user(draw(st.text(min_size=1, max_size=8)))]
    for step in range(draw(st.integers(0, 3))):
        names = [f"call_{number}_{step}_{one}" for one in range(draw(st.integers(1, 3)))]
        exchange += [tool_calls(*names), *map(result, draw(st.permutations(names)))]
        exchange += draw(st.lists(st.just(system("mind")), max_size=1))
    return [*exchange, *draw(st.lists(st.builds(assistant), max_size=1))]


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, object]]:
    """A conversation that any provider takes."""
    chat = draw(st.lists(st.builds(system), max_size=2))
    for number in range(draw(st.integers(1, 5))):
        chat += draw(exchanges(number))
    return [*chat, user("and now?")]
