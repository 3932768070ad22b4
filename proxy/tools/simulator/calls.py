"""One call to the lab, from its body to the steps that answer it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import prod

import orjson

from proxy.caches.bills import call_usage
from proxy.caches.port import Served
from proxy.tools.simulator.bodies import Body, required
from proxy.tools.simulator.embeddings import embedded
from proxy.tools.simulator.fault_directives import Cues
from proxy.tools.simulator.models import Simulated, WireName
from proxy.tools.simulator.refusals import Refusal, error, of_status, page, quota
from proxy.tools.simulator.replies import Asked, reply
from proxy.tools.simulator.responses import RESPONSES, output
from proxy.tools.simulator.responses_bodies import items
from proxy.tools.simulator.scripted_reply import Context, Speech, Told
from proxy.tools.simulator.streams import (
    CHARGE,
    CUT,
    HEAD,
    SILENCE,
    Event,
    Frame,
    Json,
    Opening,
    Step,
    body,
    drop_usage,
    frame,
    keepalives,
    stream,
    with_usage_as_cued,
    zero_usage,
)
from proxy.tools.simulator.upstream import Lab
from slo.usage import Usage

#: What reading a part of the wrong shape raises; a schema may refer to itself without end.
_MISSHAPEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_ERROR_STATUS: dict[WireName, int] = {"openai": 500, "anthropic": 529}


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An answer ready to be played.

    Attributes:
        steps: What the connection does.
        usage: What is charged; None for nothing.
        seconds: Simulated seconds until the first byte.
        streamed: Whether it is a stream.
        length: The body's length; None where it is not known before.
    """

    steps: Iterator[Step]
    usage: Usage | None
    seconds: float
    streamed: bool = False
    length: int | None = None


@dataclass(frozen=True, slots=True)
class _Timing:
    """When an answer starts, and what its cache is told."""

    wait: float
    begun: Callable[[], None]
    ended: Callable[[], None]


def generated(lab: Lab, speech: Speech, given: Body, key: str, cues: Cues) -> Act:
    """The answer of a model that writes text.

    Raises:
        Refusal: If the provider would refuse.
    """
    given = _continued(lab, speech, given)
    model = _model(lab, given, speech.wire)
    asked = _asked(speech, given, Context(lab.vocabulary, model, key))
    _check_length(speech, model, asked.prompt.tokens)
    cache, now = lab.cache(_name(given)), lab.clock()
    try:
        served = cache.serve(asked.prompt, now)
    except ValueError as refused:
        raise Refusal(400, f"cache: {refused}") from refused
    with shaped():
        told = _told(lab, model, asked, served, cues)
        told = replace(told, diagnosed=lab.fingerprints.diagnosed(speech, given, told))
    _charge(lab, speech.wire, told.usage)
    _store(lab, speech, given, told)
    seconds = _seconds(told)
    timing = _Timing(
        wait=seconds * _scale(lab, cues),
        begun=lambda: cache.begin_answer(asked.prompt, lab.clock()),
        ended=lambda: cache.finish_answer(asked.prompt, told.replies[0].tokens, lab.clock()),
    )
    if not asked.stream:
        return _whole(lab, speech.answer(told), cues, told.usage, timing)
    events = with_usage_as_cued(speech.events(told), cues, speech.midway(told))
    frames = [frame(event) for event in events]
    itl = model.itl * _scale(lab, cues)
    opening = Opening(speech.opening, _pause(timing))
    content = stream(frames, cues, _error_frame(speech), itl, opening)
    steps = _steps(lab, cues, timing, chain([HEAD], content), _ping(speech.wire))
    return Act(steps=steps, usage=told.usage, seconds=seconds, streamed=True)


def counted(lab: Lab, speech: Speech, given: Body, key: str, cues: Cues) -> Act:
    """Number of tokens a prompt is, as Anthropic's count_tokens says."""
    model = _model(lab, given, speech.wire)
    bounded = {"max_tokens": 1, **given}
    asked = _asked(speech, bounded, Context(lab.vocabulary, model, key))
    return plain(lab, {"input_tokens": asked.prompt.tokens}, cues)


def vectors(lab: Lab, given: Body, cues: Cues) -> Act:
    """The answer of a model that gives vectors."""
    model = _model(lab, given, "openai")
    answer, usage = embedded(given, model, lab.vocabulary)
    _charge(lab, "openai", usage)
    wait = (model.ttft + model.per_1k * usage.prompt_tokens / 1000) * _scale(lab, cues)
    return _whole(lab, answer, cues, usage, _Timing(wait, _nothing, _nothing))


def plain(lab: Lab, answer: Json, cues: Cues) -> Act:
    """An answer that costs nothing and comes at once."""
    return _whole(lab, answer, cues, None, _Timing(0.0, _nothing, _nothing))


def refuse_as_cued(cues: Cues) -> None:
    """Pass a call that is to be answered.

    Raises:
        Refusal: If a cue wants it refused.
    """
    if cues.status:
        raise of_status(cues.status, cues.number(str(cues.status), 1.0))
    if "quota" in cues:
        raise quota()
    if "html" in cues:
        raise page()


def _name(given: Body) -> str:
    """The model's name without the cues behind it."""
    return str(required(given, "model", str)).partition("+")[0]


def _model(lab: Lab, given: Body, wire: WireName) -> Simulated:
    name = _name(given)
    model = lab.settings.models.get(name)
    if model is None or model.wire != wire:
        reason = f"model: {name} does not exist in this lab."
        raise Refusal(404, reason, code="model_not_found", param="model")
    return model


def _asked(speech: Speech, given: Body, context: Context) -> Asked:
    if context.model.dimensions:
        raise Refusal(400, "model: this model gives vectors only.", param="model")
    with shaped():
        return speech.asked(given, context)


def _check_length(speech: Speech, model: Simulated, tokens: int) -> None:
    """Pass a prompt that the model's window has room for.

    Source: OpenAI API reference, error codes; Anthropic, errors (2026-11).

    Raises:
        Refusal: If it is too long.
    """
    if model.window is None or tokens <= model.window:
        return
    if model.wire == "anthropic":
        raise Refusal(400, f"prompt is too long: {tokens} tokens > {model.window} maximum")
    raise Refusal(
        400,
        f"This model's maximum context length is {model.window} tokens. However, your messages"
        f" resulted in {tokens} tokens. Please reduce the length of the messages.",
        code="context_length_exceeded",
        param="input" if speech is RESPONSES else "messages",
    )


@contextmanager
def shaped() -> Iterator[None]:
    """Refuse a body, or a schema in it, whose parts have the wrong shape."""
    try:
        yield
    except _MISSHAPEN as wrong:
        said = f"{type(wrong).__name__}: {wrong}"
        raise Refusal(400, f"A part of the body has the wrong shape ({said}).") from wrong


def _told(lab: Lab, model: Simulated, asked: Asked, served: Served, cues: Cues) -> Told:
    replies = [
        reply(asked, cues, lab.vocabulary, model.words, index=index) for index in range(asked.n)
    ]
    usage = call_usage(
        served,
        output=sum(len(each.tokens) for each in replies),
        reasoning=sum(each.reasoning for each in replies),
    )
    return Told(
        id=lab.number(),
        created=int(lab.clock()),
        model=model,
        asked=asked,
        replies=replies,
        usage=usage,
    )


def _charge(lab: Lab, wire: WireName, usage: Usage) -> None:
    """Count the call against the limits; Anthropic does not count what was read from the cache.

    Source: OpenAI and Anthropic, rate limits and cached tokens (2026-08).
    """
    counted = usage.prompt_tokens - (usage.cache_read if wire == "anthropic" else 0)
    now = lab.clock()
    wait = lab.requests.take(1, now) or lab.tokens.take(counted, now)
    if wait:
        raise of_status(429, wait)


def _seconds(told: Told) -> float:
    """Simulated seconds until the first byte: prefill, hidden reasoning, all of a JSON answer."""
    model, usage = told.model, told.usage
    uncached = usage.prompt_tokens - usage.cache_read
    before = 0 if told.asked.shows_reasoning else usage.reasoning
    tokens = before if told.asked.stream else usage.generated_tokens
    return model.ttft + model.per_1k * uncached / 1000 + model.itl * tokens


def _scale(lab: Lab, cues: Cues) -> float:
    """Real seconds per simulated one."""
    return lab.settings.time_scale * prod(float(slow or 10) for slow in cues.values("slow"))


def _whole(lab: Lab, answer: Json, cues: Cues, usage: Usage | None, timing: _Timing) -> Act:
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
    return Act(steps=steps, usage=usage, seconds=timing.wait, length=length)


def _steps(
    lab: Lab, cues: Cues, timing: _Timing, content: Iterator[Step], ping: bytes
) -> Iterator[Step]:
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


def _pause(timing: _Timing) -> Iterator[Step]:
    """Until the first token: from then on the prompt is cached, and charged."""
    if timing.wait:
        yield Step("wait", seconds=timing.wait)
    timing.begun()
    yield CHARGE


def _ping(wire: WireName) -> bytes:
    if wire == "anthropic":
        return b'event: ping\ndata: {"type":"ping"}\n\n'
    return b": keep-alive\n\n"


def _error_frame(speech: Speech) -> Frame:
    """The error that may still come after a stream has begun."""
    told = error(speech.wire, of_status(_ERROR_STATUS[speech.wire]))
    if speech is RESPONSES:
        code = told["code"] or told["type"]
        flat = {**told, "type": "error", "code": code, "sequence_number": 0}
        return frame(Event(flat, "error"))
    if speech.wire == "anthropic":
        return frame(Event({"type": "error", "error": told}, "error"))
    return frame(Event({"error": told}))


def _continued(lab: Lab, speech: Speech, given: Body) -> Body:
    """The body with the conversation it continues in front of its input.

    Raises:
        Refusal: If that conversation is unknown.
    """
    previous = given.get("previous_response_id")
    if speech is not RESPONSES or previous is None:
        return given
    before = lab.responses.get(previous) if isinstance(previous, str) else None
    if before is None:
        raise Refusal(
            400,
            f"Previous response {previous!r} not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )
    return {**given, "input": [*before, *items(given)]}


def _store(lab: Lab, speech: Speech, given: Body, told: Told) -> None:
    if speech is RESPONSES and given.get("store") is not False:
        lab.store(f"resp_{told.id}", [*items(given), *output(told)])


def _nothing() -> None:
    """Nothing is cached."""
