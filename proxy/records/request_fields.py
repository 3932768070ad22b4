"""Reads the fields of a caller's body that the gateway needs, and leaves the rest alone.

The bytes stay the caller's. ``parse_request_fields`` builds no objects for the messages;
``replace_fields`` changes top-level fields and leaves every other value byte for byte unmodified.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

import msgspec

from proxy.errors import CallerError

_MAX_NAME_CHARS: Final = 512
ABSENT: Final = msgspec.Raw(b"")
_NULL: Final = b"null"
#: Prefixes of the types of tools that a provider runs, for a fee of their own.
#: Source: OpenAI, pricing (2026-11).
_HOSTED_TOOL_PREFIXES: Final = (
    "code_interpreter",
    "computer",
    "file_search",
    "image_generation",
    "web_search",
)
#: Values of a field in JSON that mean the same as its absence.
_EMPTY_VALUES: Final = frozenset({b"", b"null", b"false"})
#: Bytes of an undecodable body that are searched for a lone surrogate, to name the error.
_MAX_SURROGATE_SEARCH_BYTES: Final = 64 * 1024
#: An escape of a surrogate without the other half of its pair; its own backslash is not escaped.
#: Source: RFC 8259, section 8.2.
_LONE_SURROGATE: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*(\\ud[89ab][\da-f]{2}(?!\\ud[c-f])"
    rb"|(?<!\\ud[89ab][\da-f]{2})\\ud[c-f][\da-f]{2})",
    re.IGNORECASE,
)


class RequestMetadata(msgspec.Struct, frozen=True):
    """The fields of ``metadata`` that are for us.

    Attributes:
        user_id: The end user, in Anthropic's API.
    """

    feature: str | None = None
    user_id: Any = None


class StreamOptions(msgspec.Struct, frozen=True):
    """Options of the caller's stream."""

    include_usage: bool | None = None


class _Tool(msgspec.Struct, frozen=True):
    """The one field of a tool that is read."""

    type: Any = None


class _Container(msgspec.Struct, frozen=True):
    """The one field of a container that is read; without it, a new one is asked for."""

    id: Any = None


class AnswerOptions(msgspec.Struct, frozen=True):
    """The fields of a body that govern its answer, as JSON; the same for every endpoint."""

    tools: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT
    response_format: msgspec.Raw = ABSENT
    text: msgspec.Raw = ABSENT
    max_tokens: msgspec.Raw = ABSENT
    max_completion_tokens: msgspec.Raw = ABSENT
    max_output_tokens: msgspec.Raw = ABSENT
    n: msgspec.Raw = ABSENT
    logprobs: msgspec.Raw = ABSENT
    top_logprobs: msgspec.Raw = ABSENT
    modalities: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    stop: msgspec.Raw = ABSENT
    output_config: msgspec.Raw = ABSENT
    stop_sequences: msgspec.Raw = ABSENT


class RequestFields(AnswerOptions, frozen=True):
    """The fields of a body that decide how a call is handled; the same for every endpoint.

    Attributes:
        model: The public model name; "" where the endpoint needs none.
        service_tier: The tier asked for; it changes the price.
        previous_response_id: As JSON, like all below; ``needs_kept_state`` reads it.
    """

    model: Annotated[str, msgspec.Meta(max_length=_MAX_NAME_CHARS)] = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: RequestMetadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    previous_response_id: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT
    background: msgspec.Raw = ABSENT
    thread: msgspec.Raw = ABSENT
    container: msgspec.Raw = ABSENT
    reasoning_effort: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    system: msgspec.Raw = ABSENT
    messages: msgspec.Raw = ABSENT
    instructions: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT

    @property
    def needs_kept_state(self) -> bool:
        """True if it continues what the provider keeps, or is to be fetched from there later.

        Source: OpenAI API reference, create a response; anthropic 2.11, message threads and
        container of beta messages (2026-11).
        """
        return bool(self.kept_state_field)

    @property
    def kept_state_field(self) -> str:
        """The field that goes on from what the provider keeps, or leaves something; "" for none."""
        fields = {
            "previous_response_id": self.previous_response_id,
            "conversation": self.conversation,
            "background": self.background,
            "thread": self.thread,
        }
        named = (name for name, raw in fields.items() if bytes(raw) not in _EMPTY_VALUES)
        return next(named, "container" if _names_container(self.container) else "")

    @property
    def is_background(self) -> bool:
        """True if a Responses call is to be answered later than its request is."""
        return bytes(self.background) not in _EMPTY_VALUES

    @property
    def offers_hosted(self) -> bool:
        """True if a Responses call offers a tool that its provider runs."""
        raw = bytes(self.tools)
        if not raw:
            return False
        try:
            tools = _decode_tools(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return any(
            isinstance(tool.type, str) and tool.type.startswith(_HOSTED_TOOL_PREFIXES)
            for tool in tools
        )

    @property
    def thinking_body(self) -> bytes:
        """A body that asks for thinking as this one does, and for nothing else."""
        effort, thinking = bytes(self.reasoning_effort), bytes(self.thinking)
        return b'{"reasoning_effort":%b,"thinking":%b}' % (effort or _NULL, thinking or _NULL)

    @property
    def wants_usage(self) -> bool:
        """True if the caller asked for a usage chunk at the end of its stream."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def feature(self) -> str:
        """The feature the body names; "" for none."""
        return (self.metadata.feature or "") if self.metadata is not None else ""

    @property
    def end_user(self) -> str:
        """The opaque end user the body names; "" for none."""
        return self.safety_identifier or self.user or ""


_decode_fields = msgspec.json.Decoder(RequestFields).decode
_decode_tools = msgspec.json.Decoder(list[_Tool]).decode
_decode_container = msgspec.json.Decoder(_Container | str | None).decode
_decode_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def parse_request_fields(body: bytes) -> RequestFields:
    """The fields of a body that decide how its call is handled.

    Raises:
        CallerError: If it is not a JSON object or one of the fields we read has the wrong type.
    """
    try:
        return _decode_fields(body)
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        mend = _lone_surrogate_hint(body) or f"{error}. Send one JSON object."
        raise CallerError(f"The body is not valid JSON: {mend}", code="invalid_json") from None


def _names_container(raw: msgspec.Raw) -> bool:
    """True if a container that Anthropic keeps is to be used again, or none can be read there."""
    value = bytes(raw)
    if value in _EMPTY_VALUES:
        return False
    try:
        container = _decode_container(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return isinstance(container, str) or (container is not None and container.id is not None)


def replace_fields(
    body: bytes, fields: Mapping[str, bytes], *, without: Collection[str] = ()
) -> bytes:
    """The body with some top-level fields set to the given JSON; new ones come last.

    Every other value is byte for byte the caller's; order is kept. Where all of them are new, so
    is everything else in the body.
    """
    raw_fields = _decode_raw_fields(body)
    if not raw_fields.keys().isdisjoint(without):
        raw_fields = {name: raw for name, raw in raw_fields.items() if name not in without}
    elif raw_fields and raw_fields.keys().isdisjoint(fields):
        added = b"".join(b"," + msgspec.json.encode(name) + b":" + fields[name] for name in fields)
        return body.rstrip(b" \t\r\n")[:-1] + added + b"}"
    pieces = {name: bytes(raw) for name, raw in raw_fields.items()} | dict(fields)
    inner = b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in pieces.items())
    return b"{" + inner + b"}"


def raw_field(body: bytes, name: str) -> bytes | None:
    """The JSON text of one top-level field, as the caller wrote it; None where it is absent."""
    raw = _decode_raw_fields(body).get(name)
    return None if raw is None else bytes(raw)


def _lone_surrogate_hint(body: bytes) -> str:
    """A hint about a lone surrogate in the body's beginning; "" where there is none."""
    match = _LONE_SURROGATE.search(body, 0, _MAX_SURROGATE_SEARCH_BYTES)
    if match is None:
        return ""
    return (
        f"{match[1].decode()} (byte {match.start(1)}) is half of a surrogate pair, and no character"
        " by itself. A text that is cut within an emoji ends so: cut it elsewhere, or send \\ufffd."
    )


def _wrong_type(message: str) -> CallerError:
    """The decoder's complaint about a type, as an error that names the parameter."""
    wrong, _, path = message.partition(" - at ")
    param = path.strip("`").removeprefix("$").removeprefix(".") or None
    where = f"`{param}`" if param else "the body"
    return CallerError(f"{wrong} for {where}.", code="invalid_type", param=param)
