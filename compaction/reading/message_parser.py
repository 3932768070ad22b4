"""Parses a chat message; what cannot be parsed is not compacted.

Source: OpenAI, chat completions API reference (2026-11); what others add to it stands beside the
keys below.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from compaction.reading.message import CalledTool, CannotCompactError, Count, ParsedMessage, Voice
from compaction.reading.message_tokens import message_tokens, plain_message_tokens
from compaction.reading.prefix_digests import message_digest
from compaction.reading.signatures import is_signed
from compaction.reading.token_estimate import estimate_tokens

_VOICES: Final[Mapping[str, Voice]] = {
    "system": Voice.AUTHORITY,
    "developer": Voice.AUTHORITY,
    "user": Voice.USER,
    "assistant": Voice.ASSISTANT,
    "tool": Voice.RESULT,
    "function": Voice.RESULT,
}
#: Types of text parts, with the key of their text; the last two are of the Responses API.
_WORDS: Final = {
    "text": "text",
    "refusal": "refusal",
    "input_text": "text",
    "output_text": "text",
}
#: Keys whose objects and lists are parsed, or hold nothing that the model reads.
_KNOWN: Final = frozenset(
    {
        "annotations",
        "cache_control",
        "content",
        "function_call",
        "metadata",
        "tool_calls",
    }
)
#: Prefix of the id of a legacy function call, whose result gives only the function's name.
_LEGACY: Final = "function_call:"

#: Types of a message's parts that are not text.
_NAMES: Final = {
    "image": "an image",
    "image_url": "an image",
    "input_image": "an image",
    "input_audio": "sound",
    "file": "a file",
    "input_file": "a file",
    "document": "a document",
}
_MARK: Final = "cache_control"
#: Keys of plain messages, whose content is one text.
_PLAIN: Final = frozenset({"role", "content", "tool_call_id", "name"})
_STRINGS: Final = frozenset({str})
_TEXT: Final = {"type", "text"}

_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encoded = msgspec.json.Encoder(order="sorted").encode


def parse_message(raw: bytes, count: Count = estimate_tokens) -> ParsedMessage:
    """The message with this JSON, spoken by whom its role says.

    Raises:
        CannotCompactError: If it is no message of a chat, or nests too deep.
    """
    try:
        return _parsed_message(raw, _decode(raw), count)
    except _UNREADABLE as error:
        raise CannotCompactError(f"not a message: {error}") from None


def count_tokens_of(raw: bytes, count: Count) -> int:
    """The tokens of the message with this JSON.

    Raises:
        CannotCompactError: If it is no object, or nests too deep.
    """
    try:
        return message_tokens(_decode(raw), count)
    except _UNREADABLE as error:
        raise CannotCompactError(f"not a message: {error}") from None


def _parsed_message(raw: bytes, fields: Mapping[str, Any], count: Count) -> ParsedMessage:
    role = fields.get("role")
    voice = _VOICES.get(role) if isinstance(role, str) else None
    if not isinstance(role, str) or voice is None:
        raise CannotCompactError("not a message: its role is none that a chat has")
    if (
        _PLAIN.issuperset(fields)
        and "content" in fields
        and _STRINGS.issuperset(map(type, fields.values()))
    ):
        return _plain_message(raw, fields, voice, count)
    calls = tuple(_called_tools(fields))
    if calls and voice is not Voice.ASSISTANT:
        raise CannotCompactError(f"a message of role {role} makes calls")
    parts = _content_parts(fields)
    texts = [_part_words(part) for part in parts]
    part_texts = texts if voice is Voice.USER else map(_part_text, parts, texts)
    return ParsedMessage(
        raw=raw,
        digest=message_digest(_canonical_bytes(fields)),
        role=role,
        voice=voice,
        name=_to_text(fields.get("name") or "") if voice is Voice.USER else "",
        text="\n".join([text for text in part_texts if text]),
        calls=calls,
        answers=_answered_call_id(fields) if voice is Voice.RESULT else "",
        whole=None not in texts and _is_plain(fields),
        signed=is_signed(fields),
        tokens=message_tokens(fields, count),
    )


def _plain_message(
    raw: bytes, fields: Mapping[str, str], voice: Voice, count: Count
) -> ParsedMessage:
    """A message that is words alone, as most are."""
    return ParsedMessage(
        raw=raw,
        digest=message_digest(_encoded(fields)),
        role=fields["role"],
        voice=voice,
        name=fields.get("name", "") if voice is Voice.USER else "",
        text=fields["content"],
        answers=_answered_call_id(fields) if voice is Voice.RESULT else "",
        tokens=plain_message_tokens(fields, count),
    )


def _content_parts(fields: Mapping[str, Any]) -> list[Any]:
    """The parts of a message; a refusal counts as one."""
    content, refusal = fields.get("content"), fields.get("refusal")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    return [*parts, refusal] if refusal else parts


def _canonical_bytes(fields: Mapping[str, Any]) -> bytes:
    """The canonical bytes of a message, without cache marks, which move from call to call."""
    content = fields.get("content")
    if isinstance(content, list):
        content = [_without_cache_marks(part) for part in content]
        if len(content) == 1 and isinstance(content[0], dict) and content[0].keys() == _TEXT:
            content = content[0]["text"]
    unmarked = {name: value for name, value in fields.items() if name != _MARK}
    return _encoded({**unmarked, "content": content})


def _without_cache_marks(part: object) -> object:
    if not isinstance(part, dict) or _MARK not in part:
        return part
    return {name: value for name, value in part.items() if name != _MARK}


def _part_text(part: object, text: str | None) -> str:
    """A part as text: what is none is named, so that it is known that it was there."""
    if text is not None:
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{_NAMES.get(kind, 'something') if isinstance(kind, str) else 'something'} not kept]"


def _part_words(part: object) -> str | None:
    """The text of a part; None for what is none."""
    if isinstance(part, dict):
        kind = part.get("type")
        words = part.get(_WORDS.get(kind, "")) if isinstance(kind, str) else None
        return words if isinstance(words, str) else None
    return part if isinstance(part, str) else None


def _is_plain(fields: Mapping[str, Any]) -> bool:
    """True if no key that is not known here holds an object or a list."""
    nested = [name for name, value in fields.items() if value and isinstance(value, dict | list)]
    return _KNOWN.issuperset(nested) and all(
        _is_plain_call(call) for call in _tool_call_list(fields)
    )


def _is_plain_call(call: object) -> bool:
    return isinstance(call, dict) and call.get("type", "function") in ("function", "custom")


def _tool_call_list(fields: Mapping[str, Any]) -> list[Any]:
    """The tool calls as they stand there."""
    calls = fields.get("tool_calls") or []
    if not isinstance(calls, list):
        raise CannotCompactError("tool_calls is no list")
    return calls


def _called_tools(fields: Mapping[str, Any]) -> Iterator[CalledTool]:
    for call in _tool_call_list(fields):
        name = call.get("id") if isinstance(call, dict) else None
        if not isinstance(name, str) or not name:
            raise CannotCompactError("a tool call has no id")
        yield _called_tool(name, call.get("function") or call.get("custom") or call)
    if legacy := fields.get("function_call"):
        called = _called_tool("", legacy)
        yield CalledTool(_LEGACY + called.name, called.name, called.arguments)


def _called_tool(name: str, inner: object) -> CalledTool:
    """The tool called; arguments that are no text are written as JSON."""
    members = inner if isinstance(inner, dict) else {}
    arguments = members.get("arguments", members.get("input", ""))
    return CalledTool(
        name, _to_text(members.get("name") or members.get("type") or ""), _to_text(arguments)
    )


def _to_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _answered_call_id(fields: Mapping[str, Any]) -> str:
    """The id of the call that this is the result of."""
    call_id, legacy = fields.get("tool_call_id"), fields.get("role") == "function"
    call_id = fields.get("name") if legacy else call_id
    if not isinstance(call_id, str) or not call_id:
        raise CannotCompactError("a result does not say what it answers")
    return _LEGACY + call_id if legacy else call_id
