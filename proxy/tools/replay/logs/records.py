"""Finds the calls that one JSON document of a log records, by the names of its fields.

A tool is known by nothing but its fields, so one table of their names reads them all: our own form
and ``thriftgate export``, batch files, request and response pairs, bare bodies, HAR entries, and
what LiteLLM, Portkey, Langfuse and Helicone write.

Source: docs.litellm.ai (StandardLoggingPayload, spend logs), portkey.ai/docs (logs export),
langfuse.com/docs (observations), docs.helicone.ai (export), HAR 1.2; read 2026-11.
"""

from base64 import b64decode
from collections.abc import Iterator
from typing import Any, Final

from proxy.errors import OperatorError
from proxy.tools.replay.logs.answers import RecordedAnswer, read_answer
from proxy.tools.replay.logs.bodies import (
    REPEATING_FIELDS,
    is_request,
    other_api_reason,
    request_body,
    request_fields,
)
from proxy.tools.replay.logs.fields import (
    SHAPE_ERRORS,
    WRONG_SHAPE,
    Json,
    decode,
    first_count,
    first_text,
    lookup,
    seconds,
    values,
)
from proxy.tools.replay.logs.spans import spans
from proxy.tools.replay.recorded_call import RecordedCall

#: Lists of documents, by their path.
_LISTS: Final = ("log/entries", "observations", "data", "requests", "logs", "items")
#: The names of each field, the most telling first; "" is the document itself.
_BODY: Final = (
    "body", "params", "prompt", "request/body", "request/postData/text", "request_body",
    "requestBody", "proxy_server_request", "providerRequest/json", "request", "kwargs", "", "input",
)  # fmt: skip
_PARAMETERS: Final = (
    "model_parameters", "modelParameters", "optional_params", "input", "request/parameters", "",
)  # fmt: skip
_ANSWER: Final = (
    "reply", "response/body", "response/content/text", "response_body", "responseBody",
    "providerResponse/json", "response", "output", "completion",
)  # fmt: skip
_TIME: Final = (
    "t", "started", "startTime", "start_time", "request_created_at", "startedDateTime",
    "created_at", "timestamp", "time", "request/created_at", "createdAt",
)  # fmt: skip
_URL: Final = (
    "url", "request/url", "request_path", "target_url", "request_url", "endpoint", "call_type",
)  # fmt: skip
_MODEL: Final = (
    "model", "ai_model", "request_model", "providedModelName", "provided_model_name",
    "model_group", "requested", "response_model", "gen_ai.request.model", "gen_ai.response.model",
)  # fmt: skip
_FEATURE: Final = (
    "feature", "metadata/feature", "request_properties/Feature", "request_properties/feature",
    "properties/feature", "prompt_slug", "promptName", "prompt_name", "name",
    "metadata/user_api_key_alias", "gen_ai.agent.name", "service.name",
)  # fmt: skip
_GENERATED: Final = (
    "completion_tokens", "res_units", "usageDetails/output", "usage_details/output",
    "usage/output", "usage/completion_tokens", "usage/output_tokens", "completionTokens",
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens",
)  # fmt: skip
_PROMPT_TOKENS: Final = ("prompt_tokens", "req_units", "gen_ai.usage.input_tokens")
_STATUS: Final = (
    "response/status_code", "response/status", "response_status", "response_status_code",
    "status_code", "statusCode",
)  # fmt: skip
_FAILURES: Final = (("is_success", False), ("status", "failure"), ("level", "ERROR"))
#: Fields of documents that hold no prompt, and what to do for one.
_NO_PROMPT: Final = (
    ("custom_id", "it is a batch's result: replay the batch's input file"),
    ("spend", "LiteLLM kept no prompt: set `store_prompts_in_spend_logs: true`"),
    ("request_created_at", "Helicone exported no bodies: add --include-body"),
    ("ai_model", "Portkey exported no request: ask for the fields request and response"),
    ("call_id", "its prompt is not kept: `thriftgate team prompts NAME keep`"),
    ("traceId", "it is an observation without messages"),
)
#: The word that LiteLLM puts in place of what it cuts from prompts of 2,048 letters and more.
_CUT: Final = b"(litellm_truncated skipped"
_CUT_REASON: Final = (
    "LiteLLM kept a part of its prompt only: set MAX_STRING_LENGTH_PROMPT_IN_DB=10000000 for it"
)
_BAD_STATUS: Final = 400


def recorded_calls(document: Any) -> Iterator[RecordedCall | OperatorError]:  # noqa: ANN401 - JSON
    """The calls of a document; the reason in place of each that cannot be replayed."""
    if not isinstance(document, dict):
        yield OperatorError("it is no JSON object")
        return
    inner = _inner(document)
    for record in [document] if inner is None else inner:
        try:
            yield _call(record)
        except OperatorError as why:
            yield why
        except SHAPE_ERRORS:
            yield OperatorError(WRONG_SHAPE)


def _inner(document: Json) -> list[Json] | None:
    """The documents that a document holds; None where it is one by itself."""
    trace_spans = spans(document)
    if trace_spans is not None:
        return trace_spans
    for path in _LISTS:
        items = lookup(document, path)
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            return items
    return None


def _call(record: Json) -> RecordedCall:
    """The call of one record."""
    _refuse_failed(record)
    body = next((value for value in map(decode, values(record, _BODY)) if is_request(value)), None)
    if body is None and record.get("type") == "GENERATION" and record.get("input"):
        body = [{"role": "user", "content": str(record["input"])}]
    if body is None:
        raise OperatorError(_reason(record))
    answer = _answer(record)
    fields = request_fields(body, _parameters(record))
    request = request_body(fields, first_text(record, _URL), is_messages=answer.is_messages)
    if _CUT in request.body:
        raise OperatorError(_CUT_REASON)
    names = [fields.get("model"), *values(record, _MODEL), answer.model]
    generated = answer.generated or _own_usage(record) or first_count(record, _GENERATED)
    conversation = record.get("conversation")
    return RecordedCall(
        at=next((time for time in map(seconds, values(record, _TIME)) if time is not None), None),
        conversation="" if conversation is None else str(conversation),
        key=first_text(record, ("key", "key_id")),
        feature=_feature(record),
        body=request.body,
        reply=answer.reply,
        generated=generated,
        prompt_tokens=answer.prompt_tokens or first_count(record, _PROMPT_TOKENS),
        is_native=request.is_native,
        models=tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name)),
        ending=answer.ending,
        grades=_grades(record.get("grades")),
        answer_problem="" if generated else answer.problem,
    )


def _parameters(record: Json) -> Json:
    """The fields beside a prompt: its tools or instructions, and what makes answers repeat."""
    parameters = [p for p in map(decode, values(record, _PARAMETERS)) if _is_object(p)]
    prompt: Json = next((p for p in parameters if _has_prompt(p)), {})
    places = {
        field: [*(p.get(field) for p in parameters), record.get(f"gen_ai.request.{field}")]
        for field in REPEATING_FIELDS
    }
    numbers = {
        field: next((n for n in found if isinstance(n, int | float)), None)
        for field, found in places.items()
    }
    return {field: number for field, number in numbers.items() if number is not None} | prompt


def _refuse_failed(record: Json) -> None:
    """Pass what was asked once and answered."""
    method = first_text(record, ("method", "request/method", "request_method")) or "POST"
    if method.upper() != "POST":
        raise OperatorError("it is no model call: its method is not POST")
    if record.get("final") is False:
        raise OperatorError("it is an attempt before the final one")
    status = first_count(record, _STATUS)
    if status is not None and status >= _BAD_STATUS:
        raise OperatorError(f"its provider refused it with status {status}")
    has_error = any(lookup(answer, "error") for answer in values(record, _ANSWER))
    if has_error or any(record.get(name) == value for name, value in _FAILURES):
        raise OperatorError("it failed")


def _answer(record: Json) -> RecordedAnswer:
    """The first answer that can be read, or why the first cannot."""
    is_packed = lookup(record, "response/content/encoding") == "base64"  # HAR
    answers = [read_answer(_unpack(v) if is_packed else v) for v in values(record, _ANSWER)]
    first = next((answer for answer in answers if not answer.problem), None)
    return first or (answers[0] if answers else RecordedAnswer())


def _unpack(value: Any) -> Any:  # noqa: ANN401 - JSON
    return b64decode(value).decode(errors="replace") if isinstance(value, str) else value


def _own_usage(record: Json) -> int | None:
    """Tokens of the answer as our own receipts count them."""
    usage = record.get("usage")
    if not isinstance(usage, dict) or "call_id" not in record:
        return None
    counts = [usage.get(name, 0) for name in ("output", "reasoning")]
    return sum(counts) if all(isinstance(count, int) for count in counts) else None


def _feature(record: Json) -> str:
    tags = record.get("request_tags")
    tags = decode(tags) if isinstance(tags, (str, list)) else []
    for tag in tags if isinstance(tags, list) else ():
        if isinstance(tag, str) and not tag.startswith("User-Agent:"):  # LiteLLM adds those
            return tag
    return first_text(record, _FEATURE)


def _grades(grades: Any) -> tuple[tuple[str, float], ...]:  # noqa: ANN401 - JSON
    """Numbers by model, true and false among them; what is no number is left out."""
    grades = decode(grades)
    named = grades.items() if isinstance(grades, dict) else ()
    return tuple((name, float(grade)) for name, grade in named if isinstance(grade, int | float))


def _has_prompt(parameters: Any) -> bool:  # noqa: ANN401 - JSON
    """True for parameters that hold a part of the prompt."""
    return _is_object(parameters) and any(map(parameters.get, ("tools", "instructions")))


def _reason(record: Json) -> str:
    """Reason that a record without a prompt is not replayed, and what to do."""
    if record.get("type") in ("SPAN", "EVENT"):
        return "it is a Langfuse observation that is no generation"
    if record.get("gen_ai.request.model"):
        return (
            "its instrumentation kept no messages: set"
            " OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
        )
    bodies = [record, *(body for body in map(decode, values(record, _BODY)) if _is_object(body))]
    other = next(filter(None, map(other_api_reason, bodies[1:] or bodies)), "")
    hint = next((hint for field, hint in _NO_PROMPT if field in record), "")
    return other or hint or "it holds no messages, under no name that replay knows"


def _is_object(value: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(value, dict)
