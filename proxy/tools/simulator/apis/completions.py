"""OpenAI's older text completions.

Source: OpenAI API reference, completions (2026-11).
"""

from collections.abc import Sequence

from proxy.tools.simulator.apis.chat import counts
from proxy.tools.simulator.apis.chat_bodies import cacheable
from proxy.tools.simulator.bodies import Body, output_bound, stops, tokens, wants_usage_chunk
from proxy.tools.simulator.fault_directives import closing_text
from proxy.tools.simulator.refusals import provider_refusal
from proxy.tools.simulator.rendering import PromptRenderer, RenderedPart
from proxy.tools.simulator.replies import (
    EndpointDialect,
    ReadingContext,
    ReplyRequest,
    ScriptedReply,
)
from proxy.tools.simulator.streams import Json, StreamEvent

_USUAL_BOUND = 16
_FINISH = {"length": "length"}


def read_completions_request(body: Body, context: ReadingContext) -> ReplyRequest:
    """Reads the request of a completions body; it takes one prompt, as text or as token ids."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    rendering = PromptRenderer(context.vocabulary)
    if isinstance(prompt, str) and prompt:
        rendering.message("user", [rendering.text(prompt)])
    elif tokens(prompt):
        rendering.message("user", [RenderedPart("text", tokens(prompt))])
    else:
        raise provider_refusal(400, "prompt: one text or one list of token ids.", param="prompt")
    bound = {"max_tokens": _USUAL_BOUND} | {k: v for k, v in body.items() if v is not None}
    return ReplyRequest(
        model=body["model"],
        prompt=cacheable(rendering, body, context),
        closing=closing_text(body),
        max_tokens=output_bound(bound, ("max_tokens",), context.model.max_output),
        stream=bool(body.get("stream")),
        usage_chunk=wants_usage_chunk(body, context.model),
        stops=stops(body.get("stop")),
    )


def answer(scripted: ScriptedReply) -> Json:
    """The whole answer."""
    reply = scripted.replies[0]
    finish = _FINISH.get(reply.finish, "stop")
    return _object(scripted, reply.text, finish) | {"usage": counts(scripted.usage, units=False)}


def events(scripted: ScriptedReply) -> Sequence[StreamEvent]:
    """The answer as a stream."""
    reply = scripted.replies[0]
    chunks = [
        StreamEvent(_object(scripted, piece, None), tokens=tokens)
        for piece, tokens in reply.text_pieces()
    ]
    chunks.append(StreamEvent(_object(scripted, "", _FINISH.get(reply.finish, "stop"))))
    if scripted.request.usage_chunk:
        chunks = [StreamEvent((e.payload or {}) | {"usage": None}, tokens=e.tokens) for e in chunks]
        usage = counts(scripted.usage, units=False)
        chunks.append(StreamEvent(_object(scripted, "", None) | {"choices": [], "usage": usage}))
    return [*chunks, StreamEvent(None)]


def midway(scripted: ScriptedReply) -> StreamEvent:
    """A chunk that tells usage while the answer is being written."""
    usage = counts(scripted.midway_usage, units=False)
    return StreamEvent(_object(scripted, "", None) | {"usage": usage})


def _object(scripted: ScriptedReply, text: str, finish: str | None) -> Json:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return {
        "id": f"cmpl-{scripted.id}",
        "object": "text_completion",
        "created": scripted.created,
        "model": scripted.request.model,
        "choices": [choice],
        "system_fingerprint": "fp_simulated",
    }


COMPLETIONS = EndpointDialect(
    wire="openai",
    read_request=read_completions_request,
    answer=answer,
    events=events,
    midway=midway,
    opening=0,
)
