"""Reports of engines and providers about their caches and their time are read."""

import orjson
import pytest

from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.providers.answers.engine_timings import EngineTimings
from tests.fakes.answers import metered_answer
from tests.fakes.streams import (
    CHAT,
    DONE,
    MESSAGES,
    chat_usage,
    chunk,
    event,
    meter_of,
    named_event,
)

SAID = {"type": "tools_changed", "cache_missed_input_tokens": 7}
CACHE_MISS = {"diagnostics": {"cache_miss_reason": SAID}}


def test_a_providers_own_reason_for_a_miss_is_read() -> None:
    streamed = meter_of(named_event("message_start", message={"id": "msg_1", **CACHE_MISS}))

    assert streamed.miss_reason == ProviderReason(MissReason.DIVERGED, "the tools changed", 7)
    assert (
        metered_answer(orjson.dumps({"id": "msg_1", **CACHE_MISS})).miss_reason
        == streamed.miss_reason
    )


def test_diagnostics_in_generated_text_are_no_miss_reason() -> None:
    assert (
        metered_answer(orjson.dumps({"content": orjson.dumps(CACHE_MISS).decode()})).miss_reason
        is None
    )
    assert meter_of(*MESSAGES).miss_reason is None


TIMINGS = {"prompt_ms": 8, "predicted_ms": 600, "draft_n": 16, "draft_n_accepted": 12}
REPORT = EngineTimings(prefill=0.008, decode=0.6, draft_tokens=16, accepted_tokens=12)


def test_an_engine_s_timings_are_read_from_a_whole_answer() -> None:
    meter = metered_answer(orjson.dumps({"id": "x", "usage": chat_usage(9, 2), "timings": TIMINGS}))

    assert meter.timings == REPORT


@pytest.mark.parametrize(
    "last",
    [
        event({"id": "x", "choices": [], "usage": chat_usage(9, 2), "timings": TIMINGS}),
        event({"choices": [{"index": 0, "finish_reason": "stop"}], "timings": TIMINGS}),
        event({"type": "response.completed", "response": {"id": "x"}, "timings": TIMINGS}),
    ],
)
def test_an_engine_s_timings_are_read_from_the_last_chunk_with_usage_or_without(
    last: bytes,
) -> None:
    opening = (
        named_event("response.created", response={"id": "x"}) if b"response" in last else CHAT[0]
    )

    assert meter_of(opening, CHAT[1], last).timings == REPORT


def test_vllm_s_metrics_are_read_from_the_usage_chunk() -> None:
    metrics = {"queue_time_ms": 1, "time_to_first_token_ms": 2, "generation_time_ms": 3}
    last = event({"id": "x", "choices": [], "usage": chat_usage(9, 2), "metrics": metrics})

    assert meter_of(*CHAT[:3], last, DONE).timings == EngineTimings(
        queue=0.001, prefill=0.002, decode=0.003
    )


def test_timings_inside_generated_text_are_not_believed() -> None:
    meter = meter_of(*CHAT[:3], chunk('"timings":{"prompt_ms":5}', usage=None), *CHAT[3:])

    assert meter.timings is None
