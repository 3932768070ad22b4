"""A Responses body as a chat body, for models whose upstream speaks no Responses.

Only what can be said without state is said. Fields that both APIs know by one name pass as they
are, and so do fields that neither knows. ``store`` is not passed on: nothing is kept either way;
who asks for it by name is told so.

Source: OpenAI API reference, Responses, create (2026-11).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
import orjson

from proxy.errors import CallerError
from proxy.providers.chat.compaction_blocks import COMPACT, MIN_TRIGGER_TOKENS
from proxy.providers.responses.fields import Json, convert_value, fields
from proxy.providers.responses.input import messages
from proxy.providers.responses.names import ParameterNames
from proxy.providers.responses.namespaces import as_function_call, flat_tools
from proxy.providers.responses.tools import chat_tools

_RESEND: Final = (
    "Nothing is stored for this model: send the earlier items again in `input`, with `store` false."
)
_MANAGEMENT: Final = "context_management"
#: Fields that need something kept or run elsewhere, and how to do without.
_STATEFUL: Final[Mapping[str, str]] = MappingProxyType(
    {
        "previous_response_id": _RESEND,
        "conversation": _RESEND,
        "prompt": "Send the template's text as `instructions` and `input`.",
        "background": "Leave it out and wait for the answer, or stream it.",
        "context_management": "Leave it out and send a shorter `input` when it grows too long.",
        "moderation": "Leave it out and moderate in a call of its own.",
    }
)
#: Settings that are not carried out though the call is served, and why.
_UNKEPT: Final[Mapping[str, tuple[object, str]]] = MappingProxyType(
    {
        "store": (True, "dropped store: nothing is kept for this model"),
        "truncation": ("auto", "dropped truncation auto: nothing is cut for this model"),
    }
)
_UNCOUNTED: Final = "dropped max_tool_calls: it counts built-in tools, and this model has none"
#: Fields that are read elsewhere, or that say nothing where there is no state and no built-in tool.
_UNSAID: Final = frozenset(
    {"input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream_options"}
    | {"store", "truncation", "max_tool_calls", "include", *_STATEFUL}
)


class _Reasoning(msgspec.Struct, frozen=True):
    effort: str | None = None
    mode: str | None = None


class _Plain(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Free text, which needs no saying."""


class _Object(msgspec.Struct, frozen=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class _Schema(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="json_schema"):
    name: str
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class _Text(msgspec.Struct, frozen=True):
    format: _Plain | _Object | _Schema | None = None
    verbosity: str | None = None


class _Caching(msgspec.Struct, frozen=True):
    prewarm: bool | None = None


class _Compaction(msgspec.Struct, frozen=True):
    type: Literal["compaction"]
    compact_threshold: int | None = None


class TranslatedRequest(msgspec.Struct, frozen=True):
    """A Responses call as a chat call."""

    body: bytes
    notes: tuple[str, ...]
    names: ParameterNames


def chat_body(
    body: bytes, *, compacts: bool = False, drops_hosted: bool = False, takes_custom: bool = True
) -> TranslatedRequest:
    """Translate the call to chat; the same bytes for the same body.

    Args:
        compacts: True if the model takes Anthropic's ``context_management`` and its blocks.
        drops_hosted: True if tools that OpenAI runs are left out with a note.
        takes_custom: False if the model has no tools of free text: functions stand for them then.
    """
    request = fields(body)
    edits = _edits(request.pop(_MANAGEMENT)) if compacts and request.get(_MANAGEMENT) else {}
    _refuse_state(request)
    _render({name: value for name, value in request.items() if name != "input"})  # it is repeated
    chat: Json = {}
    for name, value in request.items():
        if value is not None and name not in _UNSAID:
            chat |= _SAID[name](value) if name in _SAID else {name: value}
    chat["messages"] = messages(
        request.get("instructions"), request.get("input"), compacts=compacts
    )
    if request.get("tools") is not None:
        convert_value(request["tools"], list[Any], "tools")
    tools = flat_tools(request, drops_hosted=drops_hosted, takes_custom=takes_custom)
    choice, parallel = request.get("tool_choice"), request.get("parallel_tool_calls")
    if not takes_custom:
        chat["messages"] = [_with_functions(message) for message in chat["messages"]]
        choice = _function_choice(choice)
    chat |= chat_tools(tools.tools, choice, parallel)
    rendered = _render(chat | _extras(request) | edits)
    notes = (*tools.notes, *_unstored_notes(request))
    return TranslatedRequest(rendered, notes, ParameterNames(request, tools.places))


def _with_functions(message: Json) -> Json:
    """A chat message whose calls are all of functions."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": list(map(as_function_call, calls))} if calls else message


def _function_choice(choice: object) -> object:
    """A choice of one tool of free text as that of the function that stands for it."""
    is_custom = isinstance(choice, dict) and choice.get("type") == "custom"
    return {**choice, "type": "function"} if isinstance(choice, dict) and is_custom else choice


def _unstored_notes(request: Json) -> Iterator[str]:
    for name, (noted_value, note) in _UNKEPT.items():
        if request.get(name) == noted_value:
            yield note
    if request.get("max_tool_calls") is not None:
        yield _UNCOUNTED


def _refuse_state(request: Json) -> None:
    for name, fix in _STATEFUL.items():
        if request.get(name):
            raise CallerError(
                f"`{name}` is not supported for this model. {fix}",
                code="unsupported_parameter",
                param=name,
            )


def _edits(value: object) -> Json:
    """Anthropic's edit that does what OpenAI's compaction does.

    Both write a summary above so many tokens, go on from it, and answer with what must be sent
    back. Neither threshold means anything below Anthropic's least.
    """
    edits = convert_value(value, list[_Compaction], _MANAGEMENT)
    if len(edits) > 1:
        raise CallerError(
            "`context_management` holds more than one compaction. Send one.",
            code="invalid_value",
            param=_MANAGEMENT,
        )
    edit: Json = {"type": COMPACT}
    threshold = edits[0].compact_threshold
    if threshold is not None and threshold < MIN_TRIGGER_TOKENS:
        raise CallerError(
            f"This model cannot compact below {MIN_TRIGGER_TOKENS} tokens."
            " Ask for a higher threshold, or leave `context_management` out.",
            code="unsupported_value",
            param=f"{_MANAGEMENT}[0].compact_threshold",
        )
    if threshold is not None:
        edit["trigger"] = {"type": "input_tokens", "value": threshold}
    return {_MANAGEMENT: {"edits": [edit]}}


def _extras(request: Json) -> Json:
    """The chat fields that ask for what a Responses upstream gives unasked, or by name."""
    extras: Json = {}
    if request.get("stream") is True:
        options = convert_value(
            request.get("stream_options") or {}, dict[str, Any], "stream_options"
        )
        extras["stream_options"] = options | {"include_usage": True}
    if "message.output_text.logprobs" in convert_value(
        request.get("include") or [], list[Any], "include"
    ):
        extras["logprobs"] = True
    return extras


def _reasoning(value: object) -> Json:
    reasoning = convert_value(value, _Reasoning, "reasoning")
    if reasoning.mode not in (None, "standard"):
        raise CallerError(
            "This reasoning mode is not supported for this model. Leave `reasoning.mode` out.",
            code="unsupported_value",
            param="reasoning.mode",
        )
    return {} if reasoning.effort is None else {"reasoning_effort": reasoning.effort}


def _text(value: object) -> Json:
    text = convert_value(value, _Text, "text")
    chat: Json = {} if text.verbosity is None else {"verbosity": text.verbosity}
    if isinstance(text.format, _Object):
        chat["response_format"] = {"type": "json_object"}
    if isinstance(text.format, _Schema):
        schema = msgspec.to_builtins(text.format)
        chat["response_format"] = {"type": schema.pop("type"), "json_schema": schema}
    return chat


def _caching(value: object) -> Json:
    """Chat's options; the comparison for diagnostics is one of stored responses and is left out."""
    if convert_value(value, _Caching, "prompt_cache_options").prewarm:
        raise CallerError(
            "A prompt cannot be prewarmed for this model. Leave `prewarm` out.",
            code="unsupported_value",
            param="prompt_cache_options.prewarm",
        )
    given = convert_value(value, dict[str, Any], "prompt_cache_options")
    unsaid = ("prewarm", "comparison_response_id")
    return {"prompt_cache_options": {k: v for k, v in given.items() if k not in unsaid}}


_SAID: Final[Mapping[str, Callable[[object], Json]]] = MappingProxyType(
    {
        "max_output_tokens": lambda value: {"max_completion_tokens": value},
        "reasoning": _reasoning,
        "text": _text,
        "prompt_cache_options": _caching,
        # Chat wants both fields; none at all is the default of both APIs.
        "top_logprobs": lambda value: (
            {"logprobs": True, "top_logprobs": value} if value != 0 else {}
        ),
    }
)


def _render(chat: Json) -> bytes:
    try:
        return orjson.dumps(chat)
    except orjson.JSONEncodeError:
        raise CallerError(
            "The body is nested too deeply. Send flatter JSON.", code="invalid_json"
        ) from None
