"""A few conversations of several kinds, written for tests; each only ever appends."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.handbook import handbook, question
from tests.fakes.recorded import Message, RecordedDialogue

_TEXT = {"type": "string"}


def _tool(name: str, says: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": says, "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = (
    _tool("find_order", "Finds an order by its number.", number=_TEXT),
    _tool("send_label", "Sends a return label.", number=_TEXT, email=_TEXT),
    _tool("book_refund", "Books a refund.", number=_TEXT, cents={"type": "integer"}),
    _tool("ask_floor", "Asks the floor lead.", words=_TEXT),
    _tool("list_slots", "Lists free delivery slots.", day=_TEXT),
)
_RULES = handbook(14, "short")


def _user(content: object) -> Message:
    return {"role": "user", "content": content}


def _says(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _calls(*called: tuple[str, str], text: str | None = None) -> Message:
    calls = [
        {
            "id": f"call_{name}_{len(arguments)}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for name, arguments in called
    ]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def _gives(name: str, arguments: str, gave: str) -> Message:
    return {"role": "tool", "tool_call_id": f"call_{name}_{len(arguments)}", "content": gave}


def _chat(turns: int) -> Sequence[Message]:
    messages = []
    for turn in range(turns):
        messages += [
            _user(question(f"chat {turn}")),
            _says(f"Case {turn}: the billing desk decides."),
        ]
    return messages


_FOUND = '{"number":"77121"}'
_LABEL = '{"number":"77121","email":"ines@example.com"}'
_SLOTS = '{"day":"Tuesday"}'
_PICTURE = {
    "type": "image_url",
    "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
}

#: Words only; an agent with tools, two at once among them; one with pictures and a later rule.
CONVERSATIONS = (
    RecordedDialogue(
        name="words",
        feature="chat",
        user="Ines Carvalho",
        place="/home/ines/desk",
        rules=_RULES,
        messages=_chat(6),
    ),
    RecordedDialogue(
        name="tools",
        feature="desk",
        user="Tom Okafor",
        place="/home/tom/desk",
        rules=_RULES,
        tools=TOOLS,
        messages=[
            _user("My order 77121 came broken. I want my money back."),
            _calls(("find_order", _FOUND)),
            _gives("find_order", _FOUND, '{"state":"delivered","cents":4590}'),
            _calls(("send_label", _LABEL), ("list_slots", _SLOTS), text="I send you a label."),
            _gives("send_label", _LABEL, "sent"),
            _gives("list_slots", _SLOTS, "9-11, 14-16"),
            _says("The label is on its way. Shall we fetch the parcel on Tuesday?"),
            _user("Yes, in the afternoon."),
            _says("Done: Tuesday, 14 to 16."),
        ],
    ),
    RecordedDialogue(
        name="pictures",
        feature="damage",
        user="Lea Brandt",
        place="/home/lea/desk",
        rules=_RULES,
        messages=[
            _user([{"type": "text", "text": "This is how it came:"}, _PICTURE]),
            _says("I see a torn corner. Is the thing inside whole?"),
            _user([{"type": "text", "text": "No."}, {"type": "text", "text": "It is in two."}]),
            _says("Then it is a damage report."),
            {"role": "system", "content": "From here on the customer is to be called by name."},
            _user("What do you need from me?"),
            _says("The number on the carrier's label, Lea."),
        ],
    ),
)
