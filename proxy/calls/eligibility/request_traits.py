"""Reads the traits of a request's body: what it needs of a model, and how it begins; pure.

A body is read in one pass that steps over its texts. It takes about 0.3 ms for each megabyte, and
holds the interpreter meanwhile: on a thread it would keep the event loop waiting just as long. So
what is read of a long body is remembered for the rest of its call.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final

import msgspec

from proxy.records.call import MESSAGES, Call
from proxy.records.message_traits import (
    NON_TEXT_TYPES,
    UNREADABLE,
    Message,
    MessageTraits,
    content_start,
    content_start_of,
    decode_parts,
    traits_of,
)
from proxy.records.request_fields import ABSENT, AnswerOptions

#: Bodies from this size on are read once for each call; calls of which that is remembered.
_MIN_REMEMBERED_BYTES: Final = 64 * 1024
_MAX_REMEMBERED_CALLS: Final = 4096
#: Bytes of a body of no known form that tell it from others, and in which anything is looked for.
_MAX_START_BYTES: Final = 4096
_MAX_SEARCHED_BYTES: Final = 256 * 1024
#: Beginning of an assistant's message whose form is not known.
_ASSISTANT_TURN: Final = re.compile(
    rb'"role"\s*:\s*"assistant"|"type"\s*:\s*"function_call_output"'
)
#: Values by which a body says that there are none; the longest of them bounds what is read.
_EMPTY_VALUES: Final = (b"null", b"[]", b"{}", b"false")
_MAX_EMPTY_BYTES: Final = 5
#: Types of Anthropic's ``tool_choice`` that leave it to the model.
_FREE_CHOICES: Final = frozenset({b"", b'"auto"', b'"none"'})
_NO_OPTIONS: Final = (b"", b"null")
#: Options by which a chat call may need a feature; most calls have none.
_RARE_OPTIONS: Final = (
    "n", "logprobs", "top_logprobs", "audio", "modalities", "web_search_options", "functions",
    "function_call", "tool_choice", "stop", "tools",
)  # fmt: skip
_rare_options: Final = attrgetter(*_RARE_OPTIONS)
_NO_RARE_OPTIONS: Final = (ABSENT,) * len(_RARE_OPTIONS)
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
        needs: Features of it that cannot be expressed in other fields, as ``CallRequirements`` has
            it.
        start: Beginning of the user's first message, as JSON.
        first_message: The whole of it, where its beginning was not read.
    """

    tools: bool
    schema: bool
    vision: bool
    output: int
    is_answered: bool
    needs: tuple[str, ...] = ()
    start: bytes = b""
    first_message: bytes = b""

    @property
    def first(self) -> bytes:
        """16 bytes that stand for the user's first message."""
        start = content_start_of(self.first_message) if self.first_message else self.start
        return blake2b(start, digest_size=16).digest()


class _Body(AnswerOptions, frozen=True):
    """The same with its conversation, whichever endpoint it is for."""

    messages: list[Message] | None = None
    input: list[Message] | str | None = None


class _Form(msgspec.Struct):
    """A chat call's response_format, or a Responses call's text."""

    type: msgspec.Raw = ABSENT
    format: msgspec.Raw = ABSENT


_BODY: Final = msgspec.json.Decoder(_Body)
_OPTIONS: Final = msgspec.json.Decoder(AnswerOptions)
_FORM: Final = msgspec.json.Decoder(_Form)
_LIMIT: Final = msgspec.json.Decoder(int)


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
            traits = self._long[key] = _read_traits(call.body, is_messages=_is_messages(call))
            if len(self._long) > _MAX_REMEMBERED_CALLS:
                self._long.popitem(last=False)
        return traits


_traits_cache: Final = _TraitsCache()


def request_traits(call: Call) -> RequestTraits:
    """The traits of the call's body, which is read once."""
    split, fields = call.split, call.fields
    if split is not None and split.body is call.body and fields is not None:
        traits = split.traits
        if traits is not None and fields.input is ABSENT:
            return _traits_of_split(fields, split.messages, traits, is_messages=_is_messages(call))
    return (
        _traits_cache.traits_of_body(call.body, is_messages=_is_messages(call))
        if len(call.body) < _MIN_REMEMBERED_BYTES
        else _traits_cache.traits_of_call(call)
    )


def _is_messages(call: Call) -> bool:
    return call.endpoint == MESSAGES


def _traits_of_split(
    fields: AnswerOptions, messages: Sequence[bytes], traits: MessageTraits, *, is_messages: bool
) -> RequestTraits:
    """The traits of a body whose fields and messages were read when it came."""
    first = messages[traits.first_user] if traits.first_user >= 0 else b""
    return _traits(fields, traits, first_message=first, is_messages=is_messages)


def _read_traits(body: bytes, *, is_messages: bool) -> RequestTraits:
    try:
        fields = _BODY.decode(body)
    except UNREADABLE:
        return _guess_traits(body, is_messages=is_messages)
    turns = fields.messages or (fields.input if isinstance(fields.input, list) else None) or []
    traits, start = traits_of(turns), b""
    if traits.first_user >= 0:
        start = content_start(turns[traits.first_user])
    elif isinstance(fields.input, str) and not turns:
        start = fields.input[:_MAX_START_BYTES].encode(errors="replace")
    return _traits(fields, traits, start=start, is_messages=is_messages)


def _guess_traits(body: bytes, *, is_messages: bool) -> RequestTraits:
    """Guesses the traits of a body in an unknown format; a long one is taken to need everything."""
    try:
        fields = _OPTIONS.decode(body)
    except UNREADABLE:
        fields = AnswerOptions()
    is_long = len(body) > _MAX_SEARCHED_BYTES
    traits = MessageTraits(
        has_parts=is_long or any(kind in body for kind in NON_TEXT_TYPES),
        is_answered=is_long or _ASSISTANT_TURN.search(body) is not None,
    )
    return _traits(fields, traits, start=body[:_MAX_START_BYTES], is_messages=is_messages)


def _traits(
    fields: AnswerOptions,
    traits: MessageTraits,
    *,
    start: bytes = b"",
    first_message: bytes = b"",
    is_messages: bool,
) -> RequestTraits:
    return RequestTraits(
        tools=_is_given(fields.tools) or _is_given(fields.functions),
        schema=_is_schema(fields.response_format)
        or _is_schema(fields.text)
        or _is_schema(fields.output_config),
        vision=traits.has_parts,
        output=_first_limit(fields),
        is_answered=traits.is_answered,
        needs=tuple((_messages_features if is_messages else _required_features)(fields)),
        start=start,
        first_message=first_message,
    )


def _first_limit(fields: AnswerOptions) -> int:
    """The first output limit that can be read; 0 where none can."""
    for raw in (fields.max_completion_tokens, fields.max_tokens, fields.max_output_tokens):
        if (limit := _output_limit(raw)) is not None:
            return limit
    return 0


def _required_features(fields: AnswerOptions) -> Iterator[str]:
    """Features of a body that only some models take and that cannot be expressed otherwise."""
    if _rare_options(fields) == _NO_RARE_OPTIONS:
        return
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


def _messages_features(fields: AnswerOptions) -> Iterator[str]:
    """The same of a call of Anthropic's API, whose own tools have types of their own."""
    choice = fields.tool_choice
    if _begins_with(choice, b"{") and bytes(_FORM.decode(choice).type) not in _FREE_CHOICES:
        yield "forced_tools"
    if _is_given(fields.stop_sequences):
        yield "stop"
    if _begins_with(fields.tools, b"["):
        try:
            kinds = {bytes(tool.type) for tool in decode_parts(fields.tools)}
        except UNREADABLE:
            return
        if kinds - {b"", b"null", b'"custom"'}:
            yield "server_tools"


def _tool_needs(tools: msgspec.Raw) -> Iterator[str]:
    try:
        kinds = {bytes(tool.type) for tool in decode_parts(tools)} - {b"", b'"function"'}
    except UNREADABLE:
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


def _is_schema(form: msgspec.Raw) -> bool:
    """True if a chat call's response_format, or a Responses call's text, is a schema."""
    if not _begins_with(form, b"{"):
        return False
    outer = _FORM.decode(form)
    inner = _FORM.decode(outer.format) if _begins_with(outer.format, b"{") else _Form()
    return _equals(outer.type, b'"json_schema"') or _equals(inner.type, b'"json_schema"')


def _equals(raw: msgspec.Raw, text: bytes) -> bool:
    return raw is not ABSENT and bytes(memoryview(raw)[: len(text) + 1]) == text


def _begins_with(raw: msgspec.Raw, text: bytes) -> bool:
    return raw is not ABSENT and bytes(memoryview(raw)[:1]) == text


def _is_given(raw: msgspec.Raw) -> bool:
    return raw is not ABSENT and bytes(memoryview(raw)[: _MAX_EMPTY_BYTES + 1]) not in _EMPTY_VALUES


def _output_limit(raw: msgspec.Raw) -> int | None:
    """The number that a field says; None where it says none."""
    if raw is ABSENT or memoryview(raw).nbytes > _MAX_LIMIT_DIGITS:
        return None
    try:
        return _LIMIT.decode(raw)
    except UNREADABLE:
        return None
