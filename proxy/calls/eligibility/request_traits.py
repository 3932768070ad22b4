"""Reads the traits of a request's body: what it needs of a model, and how it begins; pure.

A body is read in one pass that steps over its texts. It takes about 0.3 ms for each megabyte, and
holds the interpreter meanwhile: on a thread it would keep the event loop waiting just as long. So
what is read of a long body is remembered for the rest of its call.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from proxy.records.call import MESSAGES, Call

#: Bodies from this size on are read once for each call; calls of which that is remembered.
_MIN_REMEMBERED_BYTES: Final = 64 * 1024
_MAX_REMEMBERED_CALLS: Final = 4096
#: Bytes of the first message that tell it from others.
_MAX_MESSAGE_BYTES: Final = 4096
#: Bytes of a body of no known form in which anything is looked for.
_MAX_SEARCHED_BYTES: Final = 256 * 1024
#: Parts of a message that are no text, in all APIs: what takes one takes all.
#: Source: OpenAI API reference, create chat completion, create a response; Anthropic API, create a
#: message (2026-11).
_NON_TEXT_TYPES: Final = frozenset(
    {
        b'"document"',
        b'"file"',
        b'"image"',
        b'"image_url"',
        b'"input_audio"',
        b'"input_file"',
        b'"input_image"',
    }
)
#: Beginning of an assistant's message whose form is not known.
_ASSISTANT_TURN: Final = re.compile(
    rb'"role"\s*:\s*"assistant"|"type"\s*:\s*"function_call_output"'
)
_ABSENT: Final = msgspec.Raw(b"")
#: Values by which a body says that there are none; the longest of them bounds what is read.
_EMPTY_VALUES: Final = (b"null", b"[]", b"{}", b"false")
_MAX_EMPTY_BYTES: Final = 5
#: Types of Anthropic's ``tool_choice`` that leave it to the model.
_FREE_CHOICES: Final = frozenset({b"", b'"auto"', b'"none"'})
_NO_OPTIONS: Final = (b"", b"null")
#: Digits of the largest limit that is read.
_MAX_LIMIT_DIGITS: Final = 18


class RequestTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Traits of a request's body; in an unknown format, what looks like a requirement is one.

    Attributes:
        tools: True if it has tools or functions.
        schema: True if its answer is to have a form.
        vision: True if it has parts that are no text.
        output: Tokens it wants at most; 0 where it does not say.
        is_answered: True if something of its conversation was answered before.
        first: 16 bytes that stand for the user's first message.
        needs: Features of it that cannot be expressed in other fields, as ``CallRequirements`` has
            it.
    """

    tools: bool
    schema: bool
    vision: bool
    output: int
    is_answered: bool
    first: bytes
    needs: tuple[str, ...] = ()


class _Part(msgspec.Struct):
    """A part of a message, or a tool.

    Attributes:
        content: Parts of a tool's result, in Anthropic's API.
    """

    type: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT


class _Message(msgspec.Struct):
    """A message of a chat call, or an item of a Responses call."""

    role: msgspec.Raw = _ABSENT
    type: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT
    output: msgspec.Raw = _ABSENT


class _Fields(msgspec.Struct):
    """The fields of a body that govern its answer."""

    tools: msgspec.Raw = _ABSENT
    functions: msgspec.Raw = _ABSENT
    response_format: msgspec.Raw = _ABSENT
    text: msgspec.Raw = _ABSENT
    max_tokens: msgspec.Raw = _ABSENT
    max_completion_tokens: msgspec.Raw = _ABSENT
    max_output_tokens: msgspec.Raw = _ABSENT
    n: msgspec.Raw = _ABSENT
    logprobs: msgspec.Raw = _ABSENT
    top_logprobs: msgspec.Raw = _ABSENT
    modalities: msgspec.Raw = _ABSENT
    audio: msgspec.Raw = _ABSENT
    web_search_options: msgspec.Raw = _ABSENT
    function_call: msgspec.Raw = _ABSENT
    tool_choice: msgspec.Raw = _ABSENT
    stop: msgspec.Raw = _ABSENT
    output_config: msgspec.Raw = _ABSENT
    stop_sequences: msgspec.Raw = _ABSENT


class _Body(_Fields):
    """The same with its conversation, whichever endpoint it is for."""

    messages: list[_Message] | None = None
    input: list[_Message] | str | None = None


class _Form(msgspec.Struct):
    """A chat call's response_format, or a Responses call's text."""

    type: msgspec.Raw = _ABSENT
    format: msgspec.Raw = _ABSENT


_BODY: Final = msgspec.json.Decoder(_Body)
_FIELDS: Final = msgspec.json.Decoder(_Fields)
_PARTS: Final = msgspec.json.Decoder(list[_Part])
_FORM: Final = msgspec.json.Decoder(_Form)
_LIMIT: Final = msgspec.json.Decoder(int)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _TraitsCache:
    """Caches traits of the last short body, and of the long bodies of recent calls."""

    def __init__(self) -> None:
        self._last: tuple[bytes, RequestTraits] | None = None
        self._long: OrderedDict[tuple[str, int], RequestTraits] = OrderedDict()

    def traits_of_body(self, body: bytes, *, is_messages: bool) -> RequestTraits:
        if self._last is None or self._last[0] is not body:
            self._last = (body, _read_traits(body, is_messages=is_messages))
        return self._last[1]

    def traits_of_call(self, call: Call) -> RequestTraits:
        key = (call.id, len(call.body))
        traits = self._long.get(key)
        if traits is None:
            traits = self._long[key] = _read_traits(
                call.body, is_messages=call.endpoint == MESSAGES
            )
            if len(self._long) > _MAX_REMEMBERED_CALLS:
                self._long.popitem(last=False)
        return traits


_traits_cache: Final = _TraitsCache()


def request_traits(call: Call) -> RequestTraits:
    """The traits of the call's body, which is read once."""
    return (
        _traits_cache.traits_of_body(call.body, is_messages=call.endpoint == MESSAGES)
        if len(call.body) < _MIN_REMEMBERED_BYTES
        else _traits_cache.traits_of_call(call)
    )


def _read_traits(body: bytes, *, is_messages: bool) -> RequestTraits:
    try:
        fields = _BODY.decode(body)
    except _UNREADABLE:
        return _guess_traits(body, is_messages=is_messages)
    turns = fields.messages or (fields.input if isinstance(fields.input, list) else None) or []
    first = fields.input if isinstance(fields.input, str) and not fields.messages else ""
    begins = first[:_MAX_MESSAGE_BYTES].encode(errors="replace")
    if turns:
        begins = next(
            (_body_start(turn.content) for turn in turns if _equals(turn.role, b'"user"')), b""
        )
    return _traits(
        fields,
        vision=any(map(_is_no_text, turns)),
        is_answered=any(map(_is_answer, turns)),
        begins=begins,
        is_messages=is_messages,
    )


def _guess_traits(body: bytes, *, is_messages: bool) -> RequestTraits:
    """Guesses the traits of a body in an unknown format; a long one is taken to need everything."""
    try:
        fields = _FIELDS.decode(body)
    except _UNREADABLE:
        fields = _Fields()
    is_long = len(body) > _MAX_SEARCHED_BYTES
    return _traits(
        fields,
        vision=is_long or any(kind in body for kind in _NON_TEXT_TYPES),
        is_answered=is_long or _ASSISTANT_TURN.search(body) is not None,
        begins=body[:_MAX_MESSAGE_BYTES],
        is_messages=is_messages,
    )


def _traits(
    fields: _Fields, *, vision: bool, is_answered: bool, begins: bytes, is_messages: bool
) -> RequestTraits:
    limits = (fields.max_completion_tokens, fields.max_tokens, fields.max_output_tokens)
    read = (limit for raw_limit in limits if (limit := _output_limit(raw_limit)) is not None)
    return RequestTraits(
        tools=any(_is_given(field) for field in (fields.tools, fields.functions)),
        schema=any(map(_is_schema, (fields.response_format, fields.text, fields.output_config))),
        vision=vision,
        output=next(read, 0),
        is_answered=is_answered,
        first=blake2b(begins, digest_size=16).digest(),
        needs=tuple((_messages_features if is_messages else _required_features)(fields)),
    )


def _required_features(fields: _Fields) -> Iterator[str]:
    """Features of a body that only some models take and that cannot be expressed otherwise."""
    if (_output_limit(fields.n) or 0) > 1:
        yield "choices"
    for name, is_set in (
        ("logprobs", _is_above_none(fields.logprobs) or _is_above_none(fields.top_logprobs)),
        ("audio", _is_given(fields.audio) or b'"audio"' in bytes(fields.modalities)),
        ("web_search", bytes(fields.web_search_options) not in _NO_OPTIONS),
        ("functions", _is_given(fields.functions) or _is_given(fields.function_call)),
        ("forced_tools", _is_given(fields.tool_choice) and not _is_free(fields.tool_choice)),
        ("stop", _is_given(fields.stop)),
    ):
        if is_set:
            yield name
    if _begins_with(fields.tools, b"["):
        yield from _tool_needs(fields.tools)


def _messages_features(fields: _Fields) -> Iterator[str]:
    """The same of a call of Anthropic's API, whose own tools have types of their own."""
    choice = fields.tool_choice
    if _begins_with(choice, b"{") and bytes(_FORM.decode(choice).type) not in _FREE_CHOICES:
        yield "forced_tools"
    if _is_given(fields.stop_sequences):
        yield "stop"
    if _begins_with(fields.tools, b"["):
        try:
            kinds = {bytes(tool.type) for tool in _PARTS.decode(fields.tools)}
        except _UNREADABLE:
            return
        if kinds - {b"", b"null", b'"custom"'}:
            yield "server_tools"


def _tool_needs(tools: msgspec.Raw) -> Iterator[str]:
    try:
        kinds = {bytes(tool.type) for tool in _PARTS.decode(tools)} - {b"", b'"function"'}
    except _UNREADABLE:
        return
    if b'"custom"' in kinds:
        yield "custom_tools"
    if kinds - {b'"custom"'}:
        yield "hosted_tools"


def _is_above_none(raw: msgspec.Raw) -> bool:
    return _is_given(raw) and bytes(raw) != b"0"


def _is_free(choice: msgspec.Raw) -> bool:
    """True if a tool_choice leaves it to the model."""
    return _equals(choice, b'"auto"') or _equals(choice, b'"none"')


def _is_answer(message: _Message) -> bool:
    return _equals(message.role, b'"assistant"') or _equals(message.type, b'"function_call_output"')


def _is_no_text(message: _Message) -> bool:
    """True if it is or has a part that is no text."""
    return bytes(message.type) in _NON_TEXT_TYPES or any(
        _begins_with(content, b"[") and _has_no_text(content)
        for content in (message.content, message.output)
    )


def _has_no_text(parts: msgspec.Raw) -> bool:
    try:
        decoded = _PARTS.decode(parts)
        inner = (part.content for part in decoded if _begins_with(part.content, b"["))
        return any(bytes(part.type) in _NON_TEXT_TYPES for part in decoded) or any(
            map(_has_no_text, inner)
        )
    except _UNREADABLE:
        return True


def _is_schema(form: msgspec.Raw) -> bool:
    """True if a chat call's response_format, or a Responses call's text, is a schema."""
    if not _begins_with(form, b"{"):
        return False
    outer = _FORM.decode(form)
    inner = _FORM.decode(outer.format) if _begins_with(outer.format, b"{") else _Form()
    return _equals(outer.type, b'"json_schema"') or _equals(inner.type, b'"json_schema"')


def _equals(raw: msgspec.Raw, text: bytes) -> bool:
    return raw is not _ABSENT and bytes(memoryview(raw)[: len(text) + 1]) == text


def _begins_with(raw: msgspec.Raw, text: bytes) -> bool:
    return raw is not _ABSENT and bytes(memoryview(raw)[:1]) == text


def _is_given(raw: msgspec.Raw) -> bool:
    return (
        raw is not _ABSENT and bytes(memoryview(raw)[: _MAX_EMPTY_BYTES + 1]) not in _EMPTY_VALUES
    )


def _output_limit(raw: msgspec.Raw) -> int | None:
    """The number that a field says; None where it says none."""
    if raw is _ABSENT or memoryview(raw).nbytes > _MAX_LIMIT_DIGITS:
        return None
    try:
        return _LIMIT.decode(raw)
    except _UNREADABLE:
        return None


def _body_start(raw: msgspec.Raw) -> bytes:
    return bytes(memoryview(raw)[:_MAX_MESSAGE_BYTES])
