"""A chat body as a ``generateContent`` body.

The same body gives the same bytes, and a body with more messages begins with the same contents, so
that Google's implicit cache keeps hitting; an explicit one is named by the caller.

Source: OpenAI API reference, create chat completion; Google, Gemini API, generateContent, caching,
GenerationConfig, thinking, function calling, OpenAI compatibility (2026-11).
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_answer import Json
from proxy.providers.chat.chat_body import (
    ChatBody,
    ToolDefinition,
    decode_typed,
    invalid_parameter,
    is_given,
    tool_function,
    unsupported_parameter,
)
from proxy.providers.chat.chat_options import (
    OWN_FIELDS,
    ToolMode,
    answer_schema,
    output_limit,
    refuse_unsupported,
    stop_texts,
    tool_mode,
)
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import GEMINI
from proxy.providers.gemini.contents import contents, system_instruction


class GoogleOptions(msgspec.Struct):
    """Google's own options within a chat body."""

    cached_content: str | None = None
    thinking_config: Raw = Raw()


class ExtraBody(msgspec.Struct):
    """Fields that OpenAI's API has not."""

    google: GoogleOptions | None = None


class GeminiChatBody(ChatBody, kw_only=True):
    """The fields that this wire translates or refuses."""

    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    extra_body: ExtraBody | None = None

    @property
    def google(self) -> GoogleOptions:
        """Google's own options; empty where there are none."""
        options = self.extra_body.google if self.extra_body is not None else None
        return options or GoogleOptions()


_body: Final = msgspec.json.Decoder(GeminiChatBody)
#: Models that are told a number of thinking tokens; later ones are told a level.
_BUDGETED: Final = re.compile(r"gemini-2[.-]")
_BUDGETS: Final[Mapping[str, int]] = {
    "none": 0, "minimal": 1_024, "low": 1_024, "medium": 8_192, "high": 24_576,
    "xhigh": 24_576, "max": 24_576,
}  # fmt: skip
_LEVELS: Final[Mapping[str, str]] = {
    "none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high",
    "xhigh": "high", "max": "high",
}  # fmt: skip
#: Source: Google, Gemini API, GenerationConfig (2026-11).
MAX_STOPS: Final = 5
_TIERS: Final = frozenset({"flex", "priority"})
_CALLING_MODES: Final = {"none": "NONE", "required": "ANY"}
_JSON: Final = "application/json"
_NAMES: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_KNOWN: Final = frozenset(GeminiChatBody.__struct_fields__) | OWN_FIELDS
#: Those of the known fields that this wire has no word for.
_DROPPED: Final = frozenset(
    {"user", "safety_identifier", "cache_control", "context_management", "thinking"}
)
_REFUSED: Final = {
    "compaction": "Ask a Claude model for it, or shorten the conversation yourself.",
}


class GenerateRequest(msgspec.Struct, frozen=True):
    """A request in Google's format."""

    body: bytes
    notes: tuple[str, ...]


def generate_body(body: bytes, route: Route, model: str) -> GenerateRequest:
    """The caller's chat body for this route."""
    request, names = decode_typed(_body, body)
    refuse_unsupported(request, names, _REFUSED)
    notes: list[str] = []
    if unknown := sorted((names - _KNOWN) | (names & _DROPPED)):
        notes.append(f"dropped {', '.join(unknown)}: the model has no such parameter")
    fields = _fields(request, route, model, notes)
    return GenerateRequest(msgspec.json.encode(fields), tuple(dict.fromkeys(notes)))


def _fields(request: GeminiChatBody, route: Route, model: str, notes: list[str]) -> Json:
    """The request as it will be written, fields in a fixed order."""
    system, start = system_instruction(request.messages)
    fields: Json = {"systemInstruction": {"parts": system}} if system else {}
    fields |= _tool_fields(request, notes)
    fields["contents"] = contents(request.messages, start, notes)
    if config := _generation_config(request, route, model, notes):
        fields["generationConfig"] = config
    if request.google.cached_content:
        fields["cachedContent"] = request.google.cached_content
    return fields | _service_tier(request, notes)


def _generation_config(request: GeminiChatBody, route: Route, model: str, notes: list[str]) -> Json:
    """The fields of ``generationConfig``; empty where nothing was asked.

    Args:
        model: The upstream's name of the model.
    """
    given = {google: getattr(request, name) for name, google in _NAMES.items()}
    config = {name: value for name, value in given.items() if value is not None}
    if (limit := output_limit(request, route, notes)) is not None:
        config["maxOutputTokens"] = limit
    config |= _stops(request) | _form(request, notes)
    if request.n is not None and request.n != 1:
        config["candidateCount"] = request.n
    if (thinking := _thinking(request, model, notes)) is not None:
        config["thinkingConfig"] = thinking
    return config


def _service_tier(request: GeminiChatBody, notes: list[str]) -> Json:
    """``serviceTier``; empty for the default."""
    if request.service_tier in {None, "auto", "default"}:
        return {}
    if request.service_tier in _TIERS:
        return {"serviceTier": request.service_tier}
    notes.append(f"dropped service_tier {request.service_tier}: the model has no such tier")
    return {}


def _stops(request: GeminiChatBody) -> Json:
    stops = stop_texts(request)
    if len(stops) > MAX_STOPS:
        raise unsupported_parameter(
            "stop", f"This model takes at most {MAX_STOPS} stop sequences: send fewer."
        )
    return {"stopSequences": stops} if stops else {}


def _form(request: GeminiChatBody, notes: list[str]) -> Json:
    schema = answer_schema(request)
    if schema is None:
        return {}
    if not is_given(schema):
        return {"responseMimeType": _JSON}
    fitted = fit_schema(schema, GEMINI)
    notes += fitted.notes("response_format")
    return {"responseMimeType": _JSON, "responseJsonSchema": fitted.schema}


def _thinking(request: GeminiChatBody, model: str, notes: list[str]) -> object:
    """Google's own field first; else the effort, with thoughts told where the model thinks."""
    if is_given(request.google.thinking_config):
        return request.google.thinking_config
    effort = request.reasoning_effort
    if effort is None:
        return None
    if effort not in _LEVELS:
        raise invalid_parameter(
            "reasoning_effort", f"reasoning_effort must be one of {', '.join(_LEVELS)}."
        )
    if _BUDGETED.search(model):
        budget = _BUDGETS[effort]
        return {"thinkingBudget": budget} | ({"includeThoughts": True} if budget else {})
    level = _LEVELS[effort]
    if level != effort:
        notes.append(f"sent reasoning_effort {effort} as {level}: the nearest that the model has")
    return {"thinkingLevel": level} | ({"includeThoughts": True} if effort != "none" else {})


def _tool_fields(request: GeminiChatBody, notes: list[str]) -> Json:
    """``tools`` and ``toolConfig``, where they were given; schemas byte for byte."""
    mode, tools = tool_mode(request), request.tools or []
    if not tools:
        return {}
    declarations = [
        _declaration(tool, f"tools[{number}]", notes) for number, tool in enumerate(tools)
    ]
    if request.parallel_tool_calls is False:
        notes.append("dropped parallel_tool_calls: the model has no such parameter")
    fields: Json = {"tools": [{"functionDeclarations": declarations}]}
    if (config := _calling_config(mode)) is not None:
        fields["toolConfig"] = {"functionCallingConfig": config}
    return fields


def _declaration(tool: ToolDefinition, path: str, notes: list[str]) -> Json:
    function = tool_function(tool, path)
    declaration: Json = {"name": function.name}
    if function.description:
        declaration["description"] = function.description
    if is_given(function.parameters):
        declaration["parametersJsonSchema"] = function.parameters
    if function.strict:
        notes.append("dropped strict: this model cannot promise a tool's schema")
    return declaration


def _calling_config(choice: ToolMode) -> Json | None:
    """The mode of calling; None for Google's own default. The list of tools stays whole."""
    if choice.names is None:
        return None if choice.mode == "auto" else {"mode": _CALLING_MODES[choice.mode]}
    if choice.mode == "required":
        return {"mode": "ANY", "allowedFunctionNames": list(choice.names)}
    raise unsupported_parameter(
        "tool_choice.allowed_tools",
        "This model takes allowed tools only where one is required: allow all, or send fewer.",
    )
