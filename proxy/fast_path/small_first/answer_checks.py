"""Checks a small model's whole answer: its end, schema, tool calls, certainty, the team's pattern.

The first check that fails is named; the large model then answers. Schemas are callers' text: they
are compiled offline, with patterns that take time linear in the text.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import msgspec
import orjson

#: Bytes of a schema, and of an answer, beyond which nothing is checked: the check fails.
_MAX_BYTES: Final = 256 * 1024
_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=1 << 20)
_GOOD_ENDINGS: Final = frozenset({"stop", "tool_calls", "function_call"})


class AnswerCheck(StrEnum):
    """A check of a small model's answer."""

    FINISH = "finish"  #: It ended by itself, and is neither empty nor a refusal.
    TOOLS = "tools"  #: Each tool call names a tool on offer, and its arguments fit.
    SCHEMA = "schema"  #: It is JSON that fits the response format asked for.


class AnswerWebhook(msgspec.Struct, frozen=True):
    """A team's own service that says whether an answer may be given."""

    url: str
    deadline_s: float


class CheckRules(msgspec.Struct, frozen=True):
    """The checks of a policy.

    Attributes:
        min_margin: The least mean difference between the log-probabilities of the chosen tokens and
            of the next likely ones; None to ask none. An answer without them fails.
        pattern: A pattern that the text must hold; "" for none.
        webhook: Asked where all else passes; None for no one.
    """

    checks: tuple[AnswerCheck, ...] = tuple(AnswerCheck)
    min_margin: float | None = None
    pattern: str = ""
    webhook: AnswerWebhook | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = "{}"
    parameters: msgspec.Raw = msgspec.Raw(b"")


class _Tool(msgspec.Struct, frozen=True):
    """A tool on offer, or a call of one."""

    function: _Function | None = None


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_Tool, ...] | None = None


class _Alternative(msgspec.Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    logprob: float = 0.0
    top_logprobs: tuple[_Alternative, ...] = ()


class _Logprobs(msgspec.Struct, frozen=True):
    content: tuple[_Token, ...] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message = _Message()
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Answer(msgspec.Struct, frozen=True):
    """A chat completion, as far as it is checked."""

    choices: tuple[_Choice, ...] = ()


class _JsonSchema(msgspec.Struct, frozen=True):
    schema: msgspec.Raw = msgspec.Raw(b"")


class _Format(msgspec.Struct, frozen=True):
    type: str = "text"
    json_schema: _JsonSchema | None = None


class _Request(msgspec.Struct, frozen=True):
    """A chat request, as far as its answer is checked by it."""

    response_format: _Format | None = None
    tools: tuple[_Tool, ...] | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_request = msgspec.json.Decoder(_Request).decode


def failed_check(rules: CheckRules, request: bytes, answer: bytes) -> str:
    """The first check that a chat completion fails, with the reason; "" where it passes all.

    Args:
        request: The caller's chat body.
    """
    if len(answer) > _MAX_BYTES:
        return "answer too large to check"
    try:
        chat_request, given = _decode_request(request), _decode_answer(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "answer or request unreadable"
    if not given.choices:
        return "finish: no choice"
    failures = (_failure(rules, chat_request, choice) for choice in given.choices)
    return next((failure for failure in failures if failure), "")


def _failure(rules: CheckRules, chat_request: _Request, choice: _Choice) -> str:
    """The first check that one choice fails; "" where it passes all."""
    reasons = (
        (check.value, _REASONS[check](chat_request, choice))
        for check in AnswerCheck
        if check in rules.checks
    )
    failures = [f"{name}: {why}" for name, why in reasons if why]
    if failures:
        return failures[0]
    if rules.min_margin is not None and not _is_certain(choice.logprobs, rules.min_margin):
        return "margin: below the least, or not given"
    return "" if _holds_pattern(rules.pattern, choice.message) else "pattern: not in the text"


def mean_margin(tokens: tuple[_Token, ...]) -> float | None:
    """The mean lead of the chosen tokens over their likeliest rivals; None where none is given."""
    leads = []
    for token in tokens:
        rivals = [other.logprob for other in token.top_logprobs if other.token != token.token]
        if rivals:
            leads.append(token.logprob - max(rivals))
    return sum(leads) / len(leads) if leads else None


def _bad_ending(_: _Request, choice: _Choice) -> str:
    message = choice.message
    if choice.finish_reason not in _GOOD_ENDINGS:
        return (choice.finish_reason or "none")[:40]
    if message.refusal:
        return "refusal"
    return "" if message.tool_calls or (message.content or "").strip() else "empty"


def _bad_tool_call(chat_request: _Request, choice: _Choice) -> str:
    """The reason that a tool call cannot be run; "" where all can."""
    offered: Mapping[str, _Function] = {
        tool.function.name: tool.function for tool in chat_request.tools or () if tool.function
    }
    for call in choice.message.tool_calls or ():
        function = call.function
        if function is None or function.name not in offered:
            return "no such tool"
        try:
            arguments = orjson.loads(function.arguments or "{}")
        except orjson.JSONDecodeError:
            return "arguments are no JSON"
        parameters = bytes(offered[function.name].parameters)
        if parameters and not _fits(parameters, arguments):
            return "arguments do not fit"
    return ""


def _bad_format(chat_request: _Request, choice: _Choice) -> str:
    """The reason that a text is not what the response format asks for; "" where it is."""
    response_format, text = chat_request.response_format, choice.message.content or ""
    if response_format is None or response_format.type == "text" or choice.message.tool_calls:
        return ""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "no JSON"
    if response_format.json_schema is None:
        return "" if isinstance(value, dict) else "no object"
    schema = bytes(response_format.json_schema.schema)
    return "" if not schema or _fits(schema, value) else "does not fit"


_REASONS: Final[Mapping[AnswerCheck, Callable[[_Request, _Choice], str]]] = {
    AnswerCheck.FINISH: _bad_ending,
    AnswerCheck.TOOLS: _bad_tool_call,
    AnswerCheck.SCHEMA: _bad_format,
}


def _holds_pattern(pattern: str, message: _Message) -> bool:
    """True if the text holds the pattern, or there is none to hold."""
    if not pattern or message.tool_calls:
        return True
    return _fits(orjson.dumps({"type": "string", "pattern": pattern}), message.content or "")


def _is_certain(logprobs: _Logprobs | None, least: float) -> bool:
    margin = mean_margin(logprobs.content or ()) if logprobs is not None else None
    return margin is not None and margin >= least


def _fits(schema: bytes, value: Any) -> bool:  # noqa: ANN401 - any JSON
    """True if a value fits a schema; False too where the schema cannot be used."""
    validator = _validator(schema) if len(schema) <= _MAX_BYTES else None
    return validator is not None and validator.is_valid(value)


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> jsonschema_rs.Validator | None:
    """The validator of a schema that is compiled once; None where it is none."""
    try:
        return jsonschema_rs.validator_for(
            orjson.loads(schema), pattern_options=_PATTERNS, offline=True
        )
    except (ValueError, jsonschema_rs.ReferencingError, orjson.JSONDecodeError, RecursionError):
        return None
