"""The fields of a body that its provider refuses, and those that its catalog entry changes; pure.

Some providers answer 400 or 422 to each field that they do not know. Others ignore such fields, so
nothing is said of them here.

Source: OpenAI API reference, create chat completion (2026-11); mistralai 3.7.0,
``ChatCompletionStreamRequest``, its messages and its ``Prediction``; Mistral, predicted outputs
(2026-11); Groq and Gemini (OpenAI compatibility), errors of
unknown fields (2026-07).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal

import msgspec

from proxy.catalog.entries import BodyFields, Route
from proxy.providers.chat.chat_body import Fields
from proxy.providers.lenient import UNREADABLE
from proxy.providers.port import PreparedRequest
from proxy.records.request_fields import replace_fields

#: Fields that every chat API takes, some of it by a trait of the model.
_SHARED: Final = frozenset(
    {
        "model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n",
        "stop", "stream", "stream_options", "presence_penalty", "frequency_penalty", "logit_bias",
        "logprobs", "top_logprobs", "seed", "tools", "tool_choice", "parallel_tool_calls",
        "response_format", "reasoning_effort", "prediction", "verbosity", "user", "store",
        "metadata", "service_tier", "safety_identifier", "moderation",
    }
)  # fmt: skip
_OPENAI: Final = frozenset(
    {
        "modalities", "audio", "functions", "function_call", "web_search_options",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
    }
)  # fmt: skip
#: Providers that refuse unknown fields, with those that they take beyond the shared ones.
_OWN: Final[Mapping[str, frozenset[str]]] = {
    "openai": _OPENAI,
    "azure": _OPENAI | {"data_sources"},
    "google": frozenset({"extra_body"}),
    "groq": frozenset({"reasoning_format", "include_reasoning", "documents", "search_settings"}),
    "mistral": frozenset({"prompt_cache_key", "random_seed", "safe_prompt", "prompt_mode"}),
}

#: Fields of a message in OpenAI's own answers, so that callers send it back.
_OPENAI_MESSAGE: Final = ("refusal", "annotations", "audio", "function_call")
#: Another provider's thinking. DeepSeek and xAI read it by these names, and so do own engines.
#: Source: DeepSeek, thinking mode; xAI, reasoning (2026-11).
_REASONING: Final = ("reasoning_content", "reasoning_details")
READS_REASONING: Final = frozenset({"deepseek", "xai"})
#: Only Claude signs its thinking so; nobody else takes it.
_THINKING_BLOCKS: Final = "thinking_blocks"
_NULL: Final = b"null"

#: Endpoints of calls that generate text; other bodies have other fields.
GENERATING_ENDPOINTS: Final = frozenset(
    {"chat/completions", "completions", "messages", "responses"}
)
_DECLARED: Final = "the catalog says so of this upstream"


class _TextPrediction(msgspec.Struct):
    """The only form in which Mistral takes it; OpenAI takes parts of text, too."""

    type: Literal["content"]
    content: str


_prediction: Final = msgspec.json.Decoder(_TextPrediction).decode
_members: Final = msgspec.json.Decoder(Fields).decode


def serves_claude(route: Route) -> bool:
    """True if Claude answers there in chat's form, with cache marks and signed thinking."""
    return route.upstream.kind == "openai" and route.regime == "anthropic-breakpoint"


def is_openai(route: Route) -> bool:
    """True if OpenAI's own models answer there, at OpenAI or at Azure."""
    return route.upstream.provider in {"openai", "azure"} or route.regime.startswith("openai-")


def refused_fields(names: Iterable[str], route: Route) -> list[str]:
    """The fields of a chat call that the route's provider does not know and would refuse."""
    own = _OPENAI if is_openai(route) else _OWN.get(route.upstream.provider)
    if own is None:
        return []
    return sorted(name for name in names if name not in _SHARED and name not in own)


def refused_prediction(fields: Fields, route: Route) -> str:
    """The reason why a provider would refuse a call's ``prediction``; "" if it would not."""
    raw = fields.get("prediction")
    if raw is None or route.upstream.provider != "mistral":
        return ""
    try:
        _prediction(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "the model takes it as one text"
    choices = bytes(fields.get("n", msgspec.Raw(_NULL)))
    return "" if choices in {_NULL, b"1"} else "the model takes it with one answer only"


def refused_message_fields(
    route: Route, *, takes_extra: bool, takes_blocks: bool = False
) -> tuple[str, ...]:
    """The fields of a message that the route's provider would refuse.

    Args:
        takes_extra: True if it is an engine that reads or ignores whatever it is sent.
        takes_blocks: True if ``thinking_blocks`` are said in other words afterwards.
    """
    provider = route.upstream.provider
    names = [] if takes_blocks or serves_claude(route) else [_THINKING_BLOCKS]
    if not takes_extra and provider not in READS_REASONING:
        names += _REASONING
    if not is_openai(route):
        names += _OPENAI_MESSAGE
    if provider == "mistral":
        names.append("name")
    return tuple(names)


def without_message_fields(message: Fields, names: Iterable[str]) -> set[str]:
    """The fields that were taken off a message; a refusal goes on as what was said.

    The name of a tool's result stays: it says which tool that was.
    """
    is_tool = _text(message, "role") == b'"tool"'
    dropped = set()
    for name in names:
        if name not in message or (is_tool and name == "name"):
            continue
        raw = message.pop(name)
        if name == "refusal" and bytes(raw) != _NULL and _text(message, "content") == _NULL:
            message["content"] = raw
        dropped.add(name)
    return dropped


def _text(message: Fields, name: str) -> bytes:
    raw = message.get(name)
    return _NULL if raw is None else bytes(raw)


def apply_body_fields(prepared: PreparedRequest, declared: BodyFields) -> PreparedRequest:
    """The request with its upstream's changes; each of the caller's fields that goes has a note.

    A body that cannot be read is left to the upstream to judge.
    """
    try:
        members = _members(prepared.body)
    except UNREADABLE:
        return prepared
    renamed: dict[str, str] = {}
    for name, new in declared.rename.items():
        if name in members and new not in members and new not in renamed.values():
            renamed[name] = new
    fields = {**declared.add, **{new: bytes(members[name]) for name, new in renamed.items()}}
    gone = [name for name in (*declared.rename, *sorted(declared.drop)) if name in members]
    return msgspec.structs.replace(
        prepared,
        body=replace_fields(prepared.body, fields, without=gone)
        if fields or gone
        else prepared.body,
        notes=(*prepared.notes, *_notes(members, declared, renamed, gone)),
    )


def _notes(
    members: Collection[str], declared: BodyFields, renamed: Mapping[str, str], gone: list[str]
) -> list[str]:
    """A sentence for each of the caller's fields that does not go as it is."""
    return [
        f"sent {name} as {renamed[name]}" if name in renamed else f"dropped {name}: {_DECLARED}"
        for name in gone
    ] + [f"set {name}: {_DECLARED}" for name in declared.add if name in members]
