"""Splits an attempt's time into phases, by its engine's own report and the gateway's clock; pure.

::

    arrival ─ gateway ─ sent ─ queue ─ prefill ─ decode ─ end
                               └ transfer: what is left of the time since it was sent

vLLM reports all three phases. llama.cpp reports no queue: then the queue is the rest of the wait
for the first content, which includes one way of the network. Providers report nothing, and nothing
is made up for them.
"""

from typing import Any, Final

from proxy.providers.answers.engine_timings import EngineTimings
from proxy.records.receipt import PhasesFrom
from proxy.records.timeline import Timeline

_NOTHING: Final[dict[str, Any]] = {}


def phase_fields(
    timings: EngineTimings | None, timeline: Timeline, sent_at: float | None, *, streamed: bool
) -> dict[str, Any]:
    """The receipt's fields about phases and draft tokens; none where the engine reported nothing.

    Args:
        timings: The engine's report of the attempt.
        timeline: The call's time, up to now.
        sent_at: The timeline's clock when the attempt was sent; None where it was not.
        streamed: True if the answer came in pieces.
    """
    if timings is None or sent_at is None:
        return _NOTHING
    fields = {"draft_tokens": timings.draft_tokens, "accepted_tokens": timings.accepted_tokens}
    prefill, decode = timings.prefill, timings.decode
    if prefill is None or decode is None:
        return fields
    now = timeline.now()
    queue, source = timings.queue, PhasesFrom.ENGINE
    if queue is None:
        queue, source = _seen_queue(timings, timeline, sent_at, streamed=streamed), PhasesFrom.BOTH
    gateway = max(now - timeline.started - timeline.waited_s, 0.0)
    since_sent = now - sent_at - max(gateway - (sent_at - timeline.started), 0.0)
    return fields | {
        "queue": queue,
        "prefill": prefill,
        "decode": decode,
        "transfer": max(since_sent - queue - prefill - decode, 0.0),
        "phases_from": source,
    }


def _seen_queue(
    timings: EngineTimings, timeline: Timeline, sent_at: float, *, streamed: bool
) -> float:
    """Seconds of the wait for the first content in which the engine did not work on the call."""
    first = timeline.now() if timeline.ttft is None else timeline.started + timeline.ttft
    worked = (timings.prefill or 0.0) + (0.0 if streamed else timings.decode or 0.0)
    return max(first - sent_at - worked, 0.0)
