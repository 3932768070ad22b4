"""A chat completions body as other wires read it: typed, so that a wrong type names its place.

JSON the gateway has no business reading (schemas, signatures, markers) stays raw and is sent on
byte for byte. Source: OpenAI API reference, create chat completion (2026-11).
"""

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from proxy.errors import CallerError
from proxy.providers.lenient import UNREADABLE

Shape = TypeVar("Shape")
#: Members of an object, each as its JSON.
Fields = dict[str, Raw]

#: A raw field that was not sent; ``null`` means the same.
ABSENT: Final = (b"", b"null")


class ImageUrl(msgspec.Struct):
    """Address of an image, or the image itself as a data URL."""

    url: str
    detail: str | None = None


class FileContent(msgspec.Struct):
    """A file within the call, or the name of one kept by OpenAI."""

    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class CacheMarkable(msgspec.Struct):
    """Anything that may carry a cache marker: Anthropic's as it is, or OpenAI's."""

    cache_control: Raw = Raw()
    prompt_cache_breakpoint: Raw = Raw()


class ContentPart(CacheMarkable, kw_only=True):
    """One part of a message's content."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | None = None
    file: FileContent | None = None


class NamedObject(msgspec.Struct):
    """Something that is only named."""

    name: str


class Grammar(msgspec.Struct):
    """The grammar of a custom tool's text."""

    syntax: str
    definition: str


class TextFormat(msgspec.Struct):
    """The form of a custom tool's text."""

    type: str
    grammar: Grammar | None = None


class FunctionDefinition(CacheMarkable, kw_only=True):
    """A function or a custom tool that the model may call."""

    name: str
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    format: TextFormat | None = None


class ToolDefinition(CacheMarkable, kw_only=True):
    """A tool the model may use; which member matters depends on its type."""

    type: str = "function"
    function: FunctionDefinition | None = None
    custom: FunctionDefinition | None = None


class CalledFunction(msgspec.Struct):
    """The function a model called, with its arguments as JSON text or its free text."""

    name: str
    arguments: str | None = None
    input: str | None = None


class ToolCall(CacheMarkable, kw_only=True):
    """One call of a tool by the model."""

    id: str
    type: str = "function"
    function: CalledFunction | None = None
    custom: CalledFunction | None = None
    extra_content: Raw = Raw()


class ChatMessage(CacheMarkable, kw_only=True):
    """One message; which fields matter depends on its role."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    is_error: bool | None = None
    thinking_blocks: list[Raw] | None = None
    audio: Raw = Raw()
    extra_content: Raw = Raw()


class AllowedTools(msgspec.Struct):
    """A restriction to some of the tools."""

    mode: str = "auto"
    tools: list[ToolDefinition] = []


class ToolChoice(msgspec.Struct):
    """Tools that must be used, or that may be."""

    type: str
    function: NamedObject | None = None
    custom: NamedObject | None = None
    allowed_tools: AllowedTools | None = None


class AnswerSchema(msgspec.Struct):
    """A JSON schema for the answer."""

    schema: Raw = Raw()
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class ResponseFormat(msgspec.Struct):
    """The format that the answer must have."""

    type: str
    json_schema: AnswerSchema | None = None


class ChatBody(msgspec.Struct, kw_only=True):
    """The fields this wire translates or refuses; all others are dropped with a note."""

    messages: list[ChatMessage]
    model: str = ""
    stream: bool | None = None
    tools: list[ToolDefinition] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    modalities: list[str] | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | None = None
    service_tier: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    thinking: Raw = Raw()
    cache_control: Raw = Raw()
    context_management: Raw = Raw()
    compaction: Raw = Raw()


_body = msgspec.json.Decoder(ChatBody)
_fields = msgspec.json.Decoder(Fields).decode


def read(body: bytes) -> tuple[ChatBody, frozenset[str]]:
    """The body, and the names of all top-level fields it sets to something other than null."""
    return decode_typed(_body, body)


def decode_typed(decoder: msgspec.json.Decoder[Shape], body: bytes) -> tuple[Shape, frozenset[str]]:
    """The body in the shape of the decoder, and the names of the fields that are not null."""
    try:
        body.decode()
        fields = _fields(body)
        names = frozenset(name for name, raw in fields.items() if bytes(raw) != b"null")
        return decoder.decode(body), names
    except msgspec.ValidationError as error:
        wrong, _, path = str(error).partition(" - at ")
        param = path.strip("`").removeprefix("$").removeprefix(".") or None
        where = f"`{param}`" if param else "the body"
        raise CallerError(f"{wrong} for {where}.", code="invalid_type", param=param) from None
    except UNREADABLE as error:
        raise CallerError(
            f"The body is not valid JSON: {error}. Send one JSON object.", code="invalid_json"
        ) from None


def is_given(raw: Raw) -> bool:
    """True if a raw field was sent and is not null."""
    return bytes(raw) not in ABSENT


def invalid_parameter(param: str, message: str) -> CallerError:
    """A value that no model would take."""
    return CallerError(message, code="invalid_value", param=param)


def unsupported_parameter(param: str, message: str) -> CallerError:
    """The error of a parameter that cannot be translated without changing its meaning."""
    return CallerError(message, code="unsupported_value", param=param)


def tool_function(tool: ToolDefinition, path: str) -> FunctionDefinition:
    """The function of a tool."""
    if tool.type != "function":
        raise unsupported_parameter(
            f"{path}.type",
            f"Tools of type {tool.type!r}: describe it as a function with one string parameter.",
        )
    if tool.function is None:
        raise invalid_parameter(f"{path}.function", f"`{path}` has no function: add it.")
    return tool.function
