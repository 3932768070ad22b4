"""Parameters of a Messages call as chat has them: effort, form of the answer, sampling, user, tier.

Source: Anthropic, adaptive and extended thinking, effort, structured outputs; OpenAI API reference,
create chat completion (2026-11).
"""

from hashlib import sha256
from typing import Any, Final

import msgspec
import orjson

from proxy.providers.chat.chat_body import invalid_parameter, is_given, unsupported_parameter
from proxy.providers.fitting.efforts import effort_for_budget
from proxy.providers.messages.body import Json, MessagesBody, ThinkingConfig
from proxy.providers.messages.target import ChatTarget
from proxy.providers.messages.tools import is_strict_schema

_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
#: Source: OpenAI API reference, ``safety_identifier`` (2026-11).
_MAX_USER_CHARS: Final = 64
_FORMAT_NAME: Final = "answer"
#: Part of a coding agent's user that is new in every session.
_SESSION: Final = "session_id"
_OLD_SESSION: Final = "_session_"


def effort(request: MessagesBody, target: ChatTarget, notes: list[str]) -> Json:
    """``reasoning_effort`` by the caller's effort, else by its thinking."""
    config = request.output_config
    level = None if config is None else config.effort
    if level is not None and level not in _EFFORTS:
        raise invalid_parameter(
            "output_config.effort", "output_config.effort must be low, medium, high, xhigh or max."
        )
    thinking = request.thinking
    implied = None if thinking is None else _meant_effort(thinking)
    if target.takes_extras:
        members = {} if thinking is None else msgspec.to_builtins(thinking)
        members = {name: value for name, value in members.items() if value}
        fields = {"thinking": members} if members else {}
        return fields if level is None else fields | {"reasoning_effort": level}
    if implied == "none":
        return {"reasoning_effort": "none"}
    if level is None and implied is not None:
        notes.append(f"sent thinking as reasoning_effort {implied}")
    sent = level or implied
    return {} if sent is None else {"reasoning_effort": sent}


def _meant_effort(thinking: ThinkingConfig) -> str:
    """The effort that thinking stands for; adaptive thinking without one has a high one."""
    if thinking.type == "disabled":
        return "none"
    if thinking.type == "adaptive":
        return "high"
    if thinking.type == "enabled" and thinking.budget_tokens is not None:
        return effort_for_budget(thinking.budget_tokens)
    raise invalid_parameter(
        "thinking", "thinking must be adaptive, disabled, or enabled with `budget_tokens`."
    )


def answer_format(request: MessagesBody, target: ChatTarget, notes: list[str]) -> Json:
    """``response_format`` where a schema is asked for."""
    config, path = request.output_config, "output_config.format"
    form = config.format if config is not None and config.format is not None else None
    if form is None:
        form, path = request.output_format, "output_format"
    if form is None:
        return {}
    if form.type != "json_schema" or not is_given(form.schema):
        raise invalid_parameter(path, f"`{path}` must be json_schema with a `schema`.")
    schema: Json = {"name": _FORMAT_NAME, "schema": form.schema}
    if target.takes_extras or is_strict_schema(form.schema):
        schema["strict"] = True
    else:
        notes.append("the answer's schema is not strict: it has open parts or is composed")
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def sampling(request: MessagesBody) -> Json:
    """The parameters that both APIs have by one name."""
    given = {"temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k}
    return {name: value for name, value in given.items() if value is not None}


def stops(request: MessagesBody, target: ChatTarget) -> Json:
    """``stop``."""
    given = request.stop_sequences or []
    if target.max_stops is not None and len(given) > target.max_stops:
        most = f"at most {target.max_stops}" if target.max_stops else "no"
        raise unsupported_parameter(
            "stop_sequences", f"This model takes {most} stop sequences: send fewer."
        )
    return {"stop": given} if given else {}


def service_tier(request: MessagesBody) -> Json:
    """``service_tier``; Anthropic's default is the default here, too."""
    if request.service_tier not in {None, "auto", "standard_only"}:
        raise invalid_parameter("service_tier", "service_tier must be auto or standard_only.")
    return {"service_tier": "default"} if request.service_tier == "standard_only" else {}


def end_user(request: MessagesBody, target: ChatTarget) -> Json:
    """The opaque end user, in at most 64 characters and without the session it may name."""
    given = request.metadata.user_id if request.metadata is not None else None
    if not given:
        return {}
    name = given if target.takes_extras else _without_session(given)
    if len(name) > _MAX_USER_CHARS and not target.takes_extras:
        name = sha256(name.encode(errors="replace")).hexdigest()
    return {target.user_field: name}


def _without_session(name: str) -> str:
    """The user alone: coding agents add the session, which would make each a user of its own."""
    if not name.startswith("{"):
        return name.partition(_OLD_SESSION)[0] or name
    try:
        user: Any = orjson.loads(name)
    except orjson.JSONDecodeError:
        return name
    members = {key: value for key, value in user.items() if key != _SESSION}
    return orjson.dumps(members, option=orjson.OPT_SORT_KEYS).decode() if members else name
