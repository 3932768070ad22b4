"""Tests of what engines report of a call beside its usage, in the shapes of real answers."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.providers.answers.engine_timings import EngineTimings, read_timings

LLAMACPP = {
    "cache_n": 32,
    "prompt_n": 1,
    "prompt_ms": 7.869,
    "prompt_per_token_ms": 7.869,
    "predicted_n": 24,
    "predicted_ms": 611.069,
    "draft_n": 16,
    "draft_n_accepted": 12,
}
VLLM = {
    "time_to_first_token_ms": 85.5,
    "generation_time_ms": 1240.5,
    "queue_time_ms": 12.25,
    "mean_itl_ms": 9.1,
    "tokens_per_second": 103.2,
    "speculative_decoding": {
        "mean_acceptance_length": 4.69,
        "draft_acceptance_rate": 0.923,
        "num_accepted_draft_tokens": 48,
        "num_draft_tokens": 52,
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_llamacpp_reports_prefill_decode_and_draft_tokens_but_no_queue() -> None:
    assert read_timings(orjson.dumps(LLAMACPP), b"") == EngineTimings(
        prefill=0.007869, decode=0.611069, draft_tokens=16, accepted_tokens=12
    )


def test_vllm_reports_queue_too_and_its_first_token_time_is_the_prefill() -> None:
    assert read_timings(b"", orjson.dumps(VLLM)) == EngineTimings(
        queue=0.01225, prefill=0.0855, decode=1.2405, draft_tokens=52, accepted_tokens=48
    )


def test_an_engine_without_a_draft_reports_no_draft_tokens() -> None:
    plain = {name: value for name, value in LLAMACPP.items() if not name.startswith("draft")}
    timings = read_timings(orjson.dumps(plain), b"")

    assert timings is not None
    assert (timings.draft_tokens, timings.accepted_tokens) == (None, None)


@pytest.mark.parametrize(
    "metrics",
    [b"", b"null", b"{}", b"[]", b'{"queue_time_ms":null}', b'{"queue_time_ms":', b'"metrics"'],
)
def test_an_engine_report_without_values_is_none(metrics: bytes) -> None:
    assert read_timings(b"", metrics) is None


@pytest.mark.parametrize("absurd", [-1, 1e300, True, "12", [1], float(86_400_001)])
def test_a_time_that_no_call_can_take_is_unknown(absurd: object) -> None:
    report = orjson.dumps({"prompt_ms": absurd, "predicted_ms": 5})

    assert read_timings(report, b"") == EngineTimings(decode=0.005)


def test_no_more_draft_tokens_are_accepted_than_were_proposed() -> None:
    timings = read_timings(orjson.dumps({"draft_n": 4, "draft_n_accepted": 9}), b"")

    assert timings == EngineTimings(draft_tokens=4, accepted_tokens=4)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*LLAMACPP, *VLLM]), JSON))
def test_any_json_in_a_report_is_read_without_a_failure(report: dict[str, object]) -> None:
    written = orjson.dumps(report, option=orjson.OPT_NON_STR_KEYS) if _fits(report) else b"{"
    for timings in (read_timings(written, b""), read_timings(b"", written)):
        if timings is not None:
            assert all(
                value is None or value >= 0
                for value in (timings.queue, timings.prefill, timings.decode)
            )


def _fits(report: dict[str, object]) -> bool:
    try:
        orjson.dumps(report)
    except orjson.JSONEncodeError:
        return False
    return True
