"""τ-bench's retail desk, from the examples that its repository publishes as text.

They show results but not the calls: each call is put together from its result, which repeats what
was asked for (an order with its exchanged items, their new ones and the payment method). Calls that
failed, and those whose results are no record, have no arguments; nothing is needed of them.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tests.fakes.dialogue import Dialogue, Message, argument_values, given_back

#: Of github.com/sierra-research/tau-bench, MIT.
RETAIL: Final = Path("A/sierra-research+tau-bench/few_shot_data/MockRetailDomainEnv-few_shot.jsonl")
_SPEAKER: Final = re.compile(r"^(user|assistant|tool): ", re.MULTILINE)
_USER_ID: Final = re.compile(r"[a-z]+_[a-z]+_\d{4}")
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w.-]+\w")
#: Calls by the state that they leave an order in, with the fields of it that they name.
_ORDER_CALLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "exchange requested": (
        "exchange_delivered_order_items",
        ("order_id", "exchange_items", "exchange_new_items", "exchange_payment_method_id"),
    ),
    "return requested": (
        "return_delivered_order_items",
        ("order_id", "return_items", "return_payment_method_id"),
    ),
    "cancelled": ("cancel_pending_order", ("order_id", "cancel_reason")),
    "pending (item modified)": ("modify_pending_order_items", ("order_id",)),
}
_READ_ORDER: Final = ("get_order_details", ("order_id",))


def retail(path: Path) -> Iterator[Dialogue]:
    """The published dialogues."""
    for number, line in enumerate(path.read_bytes().splitlines()):
        messages = list(_messages(orjson.loads(line)["messages_display"]))
        yield Dialogue(
            name=f"retail-{number}",
            messages=messages,
            needs=argument_values(messages),
            results=given_back(messages),
        )


def _messages(text: str) -> Iterator[Message]:
    pieces = _SPEAKER.split(text)[1:]
    user_id, email = "", ""
    for place, (role, said) in enumerate(zip(pieces[::2], pieces[1::2], strict=True)):
        content = said.rstrip("\n")
        if role == "tool":
            name, arguments = _call(content, user_id, email)
            function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
            call = {"id": f"call_{place}", "type": "function", "function": function}
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
            yield {"role": "tool", "tool_call_id": call["id"], "content": content}
            user_id = content if _USER_ID.fullmatch(content) else user_id
        elif content != "None":
            if role == "user":
                email = next(iter(_EMAIL.findall(content)), email)
            yield {"role": role, "content": content}


def _call(result: str, user_id: str, email: str) -> tuple[str, dict[str, Any]]:
    """The call that has such a result."""
    if _USER_ID.fullmatch(result):
        return "find_user_id_by_email", {"email": email}
    try:
        record = orjson.loads(result)
    except orjson.JSONDecodeError:
        record = None
    fields = record if isinstance(record, dict) else {}
    if "order_id" in fields:
        return _order_call(fields)
    if "product_id" in fields:
        return "get_product_details", {"product_id": fields["product_id"]}
    return ("get_user_details", {"user_id": user_id}) if "orders" in fields else ("call", {})


def _order_call(order: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call that leaves an order in this state; an order that was cancelled before is read."""
    name, fields = _ORDER_CALLS.get(order["status"], _READ_ORDER)
    if not order.keys() >= set(fields):
        name, fields = _READ_ORDER
    return name, {field: order[field] for field in fields}
