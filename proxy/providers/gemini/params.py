"""Parameters of a chat call as Google's ``generationConfig`` has them.

Source: Google, Gemini API, GenerationConfig, thinking, OpenAI compatibility (2026-11).
"""

import re
from collections.abc import Mapping
from typing import Final

from proxy.catalog.entries import Route
from proxy.providers.chat.chat_body import invalid_parameter, is_given, unsupported_parameter
from proxy.providers.chat.chat_options import answer_schema, output_limit, stop_texts
from proxy.providers.fitting.schema_fitting import fit_schema
from proxy.providers.fitting.schema_rules import GEMINI
from proxy.providers.gemini.body import GeminiChatBody, Json

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
_JSON: Final = "application/json"
_NAMES: Final[Mapping[str, str]] = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


def generation_config(request: GeminiChatBody, route: Route, model: str, notes: list[str]) -> Json:
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


def service_tier(request: GeminiChatBody, notes: list[str]) -> Json:
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
