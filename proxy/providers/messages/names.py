"""Ids of messages and tool calls, and names of tools, between the two APIs.

A caller of the Messages API gets ids in its letters, unique in its conversation, that hold the
upstream's own: when a result comes back, its upstream reads the very id that it gave::

    chat         call_Ab1            functions.Bash:0
    Messages     toolu_tg5f0c91d2_call_Ab1    toolu_tx5f0c91d2_ZnVuY3Rpb25zLkJhc2g6MA

Source: Anthropic, tool use; OpenAI API reference, limits of names and ids; Mistral, function
calling (2026-11).
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from proxy.providers.chat.chat_options import short_tool_name
from proxy.providers.messages.target import IdForm

_CLEAN: Final = re.compile(r"[a-zA-Z0-9_-]+")
_OURS: Final = re.compile(r"toolu_t([gx])[0-9a-f]{8}_(.+)", re.DOTALL)
_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")
_ANTHROPIC: Final = "toolu_"
_MAX_ID_CHARS: Final = 40
_DIGEST_CHARS: Final = 8


def message_id(tail: str) -> str:
    """The id of a message, from the suffix that its answer has."""
    return tail if tail.startswith("msg_") else f"msg_{tail}"


def caller_call_id(chat_id: str, tail: str) -> str:
    """The id of a tool call for a caller of the Messages API; Anthropic's own stays.

    Args:
        chat_id: The upstream's id; it may be one that other answers have, too.
        tail: Suffix of the answer's ids.
    """
    if chat_id.startswith(_ANTHROPIC) and _CLEAN.fullmatch(chat_id):
        return chat_id
    digest = _digest(tail)
    if _CLEAN.fullmatch(chat_id):
        return f"toolu_tg{digest}_{chat_id}"
    return f"toolu_tx{digest}_{_pack(chat_id)}"


def chat_call_id(name: str, form: IdForm) -> str:
    """The upstream's id of a tool call, as it gave it; another's in the form that it takes."""
    chat_id = _unpack(name)
    if form == "short" and len(chat_id) > _MAX_ID_CHARS:
        return f"call_{sha256(chat_id.encode()).hexdigest()[:32]}"
    if form == "nine" and _NINE.fullmatch(chat_id) is None:
        return sha256(chat_id.encode()).hexdigest()[:9]
    return chat_id


def _pack(chat_id: str) -> str:
    return urlsafe_b64encode(chat_id.encode(errors="replace")).decode().rstrip("=")


def _unpack(name: str) -> str:
    """The id that was packed; the name itself where it is no work of ours."""
    parts = _OURS.fullmatch(name)
    if parts is None:
        return name
    if parts[1] == "g":
        return parts[2]
    try:
        chat_id = urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4)).decode()
    except ValueError:
        return name
    return chat_id if _pack(chat_id) == parts[2] else name


def caller_tool_names(names: Iterable[str]) -> Mapping[str, str]:
    """The caller's names of those tools that go by a shorter one."""
    return {short: name for name in names if (short := short_tool_name(name)) != name}


def _digest(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:_DIGEST_CHARS]
