"""One call to the simulator, from its body to the steps that answer it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from math import prod

import orjson

from proxy.caches.bills import call_usage
from proxy.caches.port import Served
from proxy.tools.simulator.apis.embeddings import embed_inputs
from proxy.tools.simulator.apis.responses import RESPONSES, output_items
from proxy.tools.simulator.apis.responses_bodies import items
from proxy.tools.simulator.bodies import Body, required_field
from proxy.tools.simulator.fault_directives import FaultDirectives
from proxy.tools.simulator.models import SimulatedModel, WireName, served_name, unknown_model
from proxy.tools.simulator.refusals import error, of_status, page, provider_refusal, quota
from proxy.tools.simulator.replies import (
    EndpointDialect,
    ReadingContext,
    ReplyRequest,
    ScriptedReply,
    reply,
)
from proxy.tools.simulator.streams import (
    CHARGE,
    CUT,
    HEAD,
    SILENCE,
    Json,
    StreamEvent,
    StreamFrame,
    StreamOpening,
    StreamStep,
    body,
    drop_usage,
    frame,
    keepalives,
    stream,
    with_usage_as_cued,
    zero_usage,
)
from proxy.tools.simulator.upstream import Simulator
from slo.usage import Usage

#: Exceptions from reading a part of the wrong shape; a schema may refer to itself without end.
_MISSHAPEN = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
)  # fmt: skip
_ERROR_STATUS: dict[WireName, int] = {"openai": 500, "anthropic": 529}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedAnswer:
    """An answer ready to be played.

    Attributes:
        usage: Usage that is charged; None for nothing.
        seconds: Simulated seconds until the first byte.
    """

    steps: Iterator[StreamStep]
    usage: Usage | None
    seconds: float
    streamed: bool = False
    length: int | None = None
    media: str = "application/json"


@dataclass(frozen=True, slots=True)
class _Timing:
    """Start of an answer, and what its cache is told."""

    wait: float = 0.0
    begun: Callable[[], None] = lambda: None
    ended: Callable[[], None] = lambda: None


def generate_answer(
    lab: Simulator, speech: EndpointDialect, request_body: Body, key: str, cues: FaultDirectives
) -> PlayedAnswer:
    """The answer of a model that writes text."""
    request_body = _with_history(lab, speech, request_body)
    model = _model(lab, request_body, speech.wire)
    request = _read_reply_request(speech, request_body, ReadingContext(lab.vocabulary, model, key))
    _check_length(speech, model, request.prompt.tokens)
    cache, now = lab.cache(_name(lab, request_body)), lab.clock()
    try:
        served = cache.serve(request.prompt, now)
    except ValueError as refused:
        raise provider_refusal(400, f"cache: {refused}") from refused
    with refuse_misshapen():
        scripted = _scripted_reply(lab, model, request, served, cues)
    _charge(lab, speech.wire, scripted.usage)
    _store(lab, speech, request_body, scripted)
    seconds = _seconds(scripted)
    timing = _Timing(
        wait=seconds * _scale(lab, cues),
        begun=lambda: cache.begin_answer(request.prompt, lab.clock()),
        ended=lambda: cache.finish_answer(request.prompt, scripted.replies[0].tokens, lab.clock()),
    )
    if not request.stream:
        return _whole(lab, speech.answer(scripted), cues, scripted.usage, timing)
    events = with_usage_as_cued(speech.events(scripted), cues, speech.midway(scripted))
    frames = [frame(event) for event in events]
    itl = model.itl * _scale(lab, cues)
    opening = StreamOpening(speech.opening, _pause(timing))
    content = stream(frames, cues, _error_frame(speech), itl, opening)
    steps = _steps(lab, cues, timing, chain([HEAD], content), _ping(speech.wire))
    return PlayedAnswer(steps=steps, usage=scripted.usage, seconds=seconds, streamed=True)


def batched_answer(lab: Simulator, speech: EndpointDialect, key: str, body: Body) -> Json:
    """The answer to one call of a batch."""
    model = _model(lab, body, speech.wire)
    request = _read_reply_request(speech, body, ReadingContext(lab.vocabulary, model, key))
    _check_length(speech, model, request.prompt.tokens)
    served = lab.cache(_name(lab, body)).serve(request.prompt, lab.clock())
    with refuse_misshapen():
        return speech.answer(_scripted_reply(lab, model, request, served, FaultDirectives()))


def count_tokens(
    lab: Simulator, speech: EndpointDialect, body: Body, key: str, cues: FaultDirectives
) -> PlayedAnswer:
    """Number of tokens a prompt is, as Anthropic's count_tokens says."""
    model = _model(lab, body, speech.wire)
    bounded = {"max_tokens": 1, **body}
    request = _read_reply_request(speech, bounded, ReadingContext(lab.vocabulary, model, key))
    return plain(lab, {"input_tokens": request.prompt.tokens}, cues)


def embedding_answer(lab: Simulator, body: Body, key: str, cues: FaultDirectives) -> PlayedAnswer:
    """The answer of a model that gives vectors."""
    model = _model(lab, body, "openai")
    answer, usage = embed_inputs(body, model, lab.vocabulary)
    _charge(lab, "openai", usage)
    wait = (model.ttft + model.per_1k * usage.prompt_tokens / 1000) * _scale(lab, cues)
    return _whole(lab, answer, cues, usage, _Timing(wait))


def plain(lab: Simulator, answer: Json, cues: FaultDirectives) -> PlayedAnswer:
    """An answer that costs nothing and comes at once."""
    return _whole(lab, answer, cues, None, _Timing())


def raw(lab: Simulator, data: bytes, media: str, cues: FaultDirectives) -> PlayedAnswer:
    """An answer that is no JSON, and comes at once."""
    steps = _steps(lab, cues, _Timing(), chain([HEAD], body(data, cues)), b"\n")
    return PlayedAnswer(steps=steps, usage=None, seconds=0.0, length=len(data), media=media)


def refuse_as_cued(cues: FaultDirectives) -> None:
    """Pass a call that is to be answered."""
    if cues.status:
        raise of_status(cues.status, cues.number(str(cues.status), 1.0))
    if "quota" in cues:
        raise quota()
    if "html" in cues:
        raise page()


def _name(lab: Simulator, body: Body) -> str:
    """The model's name without its date and the cues behind it."""
    name = str(required_field(body, "model", str)).partition("+")[0]
    return served_name(lab.settings.models, name)


def _model(lab: Simulator, body: Body, wire: WireName) -> SimulatedModel:
    name = _name(lab, body)
    model = lab.settings.models.get(name)
    if model is None or model.wire != wire:
        reason = unknown_model(lab.settings.models, name)
        raise provider_refusal(404, reason, code="model_not_found", param="model")
    return model


def _read_reply_request(
    speech: EndpointDialect, request_body: Body, context: ReadingContext
) -> ReplyRequest:
    if context.model.dimensions:
        raise provider_refusal(400, "model: this model gives vectors only.", param="model")
    with refuse_misshapen():
        return speech.read_request(request_body, context)


def _check_length(speech: EndpointDialect, model: SimulatedModel, tokens: int) -> None:
    """Pass a prompt that the model's window has room for.

    Source: OpenAI API reference, error codes; Anthropic, errors (2026-11).
    """
    if model.window is None or tokens <= model.window:
        return
    if model.wire == "anthropic":
        raise provider_refusal(400, f"prompt is too long: {tokens} tokens > {model.window} maximum")
    raise provider_refusal(
        400,
        f"This model's maximum context length is {model.window} tokens. However, your messages"
        f" resulted in {tokens} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
        param="input" if speech is RESPONSES else "messages",
    )


@contextmanager
def refuse_misshapen() -> Iterator[None]:
    """Refuse a body, or a schema in it, whose parts have the wrong shape."""
    try:
        yield
    except _MISSHAPEN as wrong:
        reason = f"{type(wrong).__name__}: {wrong}"
        raise provider_refusal(
            400, f"A part of the body has the wrong shape ({reason})."
        ) from wrong


def _scripted_reply(
    lab: Simulator,
    model: SimulatedModel,
    request: ReplyRequest,
    served: Served,
    cues: FaultDirectives,
) -> ScriptedReply:
    replies = [
        reply(request, cues, lab.vocabulary, model.words, index=index) for index in range(request.n)
    ]
    usage = call_usage(
        served,
        output=sum(len(reply.tokens) for reply in replies),
        reasoning=sum(reply.reasoning for reply in replies),
    )
    number, created = lab.number(), int(lab.clock())
    return ScriptedReply(
        id=number, created=created, model=model, request=request, replies=replies, usage=usage
    )


def _charge(lab: Simulator, wire: WireName, usage: Usage) -> None:
    """Count the call against the limits; Anthropic does not count what was read from the cache.

    Source: OpenAI and Anthropic, rate limits and cached tokens (2026-08).
    """
    counted = usage.prompt_tokens - (usage.cache_read if wire == "anthropic" else 0)
    now = lab.clock()
    wait = lab.requests.take(1, now) or lab.tokens.take(counted, now)
    if wait:
        raise of_status(429, wait)


def _seconds(scripted: ScriptedReply) -> float:
    """Simulated seconds until the first byte: prefill, hidden reasoning, all of a JSON answer."""
    model, usage = scripted.model, scripted.usage
    uncached = usage.prompt_tokens - usage.cache_read
    before = 0 if scripted.request.shows_reasoning else usage.reasoning
    tokens = before if scripted.request.stream else usage.generated_tokens
    return model.ttft + model.per_1k * uncached / 1000 + model.itl * tokens


def _scale(lab: Simulator, cues: FaultDirectives) -> float:
    """Real seconds per simulated one."""
    return lab.settings.time_scale * prod(float(slow or 10) for slow in cues.values("slow"))


def _whole(
    lab: Simulator, answer: Json, cues: FaultDirectives, usage: Usage | None, timing: _Timing
) -> PlayedAnswer:
    if "no-usage" in cues:
        drop_usage(answer)
    if "zero-usage" in cues:
        zero_usage(answer)
    data = orjson.dumps(answer)
    if "malformed" in cues or "short" in cues:
        data = data[: len(data) // 2]
    content = chain(_pause(timing), [HEAD], body(data, cues))
    steps = _steps(lab, cues, timing, content, b"\n")
    length = None if "keepalives" in cues else len(data)
    return PlayedAnswer(steps=steps, usage=usage, seconds=timing.wait, length=length)


def _steps(
    lab: Simulator,
    cues: FaultDirectives,
    timing: _Timing,
    content: Iterator[StreamStep],
    ping: bytes,
) -> Iterator[StreamStep]:
    if "hang" in cues:
        yield SILENCE
    if "silence" in cues or "death-before-content" in cues:
        yield HEAD
        yield SILENCE if "silence" in cues else CUT
    if "keepalives" in cues:
        yield HEAD
        value = next(iter(cues.values("keepalives")))
        yield from keepalives(ping, int(value) if value else None, lab.settings.keepalive)
    yield from content
    timing.ended()


def _pause(timing: _Timing) -> Iterator[StreamStep]:
    """Until the first token: from then on the prompt is cached, and charged."""
    if timing.wait:
        yield StreamStep("wait", seconds=timing.wait)
    timing.begun()
    yield CHARGE


def _ping(wire: WireName) -> bytes:
    if wire == "anthropic":
        return b'event: ping\ndata: {"type":"ping"}\n\n'
    return b": keep-alive\n\n"


def _error_frame(speech: EndpointDialect) -> StreamFrame:
    """The error that may still come after a stream has begun."""
    document = error(speech.wire, of_status(_ERROR_STATUS[speech.wire]))
    if speech is RESPONSES:
        code = document["code"] or document["type"]
        flat = {**document, "type": "error", "code": code, "sequence_number": 0}
        return frame(StreamEvent(flat, "error"))
    if speech.wire == "anthropic":
        return frame(StreamEvent({"type": "error", "error": document}, "error"))
    return frame(StreamEvent({"error": document}))


def _with_history(lab: Simulator, speech: EndpointDialect, request_body: Body) -> Body:
    """The body with the conversation it continues in front of its input."""
    previous = request_body.get("previous_response_id")
    if speech is not RESPONSES or previous is None:
        return request_body
    before = lab.responses.get(previous) if isinstance(previous, str) else None
    if before is None:
        raise provider_refusal(
            400,
            f"Previous response {previous!r} not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return {**request_body, "input": [*before, *items(request_body)]}


def _store(
    lab: Simulator, speech: EndpointDialect, request_body: Body, scripted: ScriptedReply
) -> None:
    if speech is RESPONSES and request_body.get("store") is not False:
        lab.store(f"resp_{scripted.id}", [*items(request_body), *output_items(scripted)])
