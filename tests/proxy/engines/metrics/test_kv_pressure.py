"""Advice on the KV cache, from preemptions and from calls that wait for room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.metrics.kv_pressure import (
    KVCounters,
    KVSums,
    describe_formats,
    kv_advice,
    kv_counters,
)
from proxy.engines.metrics.metrics_page import EngineMetrics
from tests.fakes.engine_profiles import a_profile

NOW = 1_790_000_000.0
DAY_S = 86_400.0


def page(running: float = 4.0, waiting: float = 0.0, kv_usage: float = 0.5) -> EngineMetrics:
    return EngineMetrics(values={"running": running, "waiting": waiting, "kv_usage": kv_usage})


def sums_with_preemptions(
    preemptions: float, calls: float = 1_000.0, dtype: str = "auto"
) -> dict[str, KVSums]:
    return {dtype: KVSums(preemptions=preemptions, calls=calls)}


def test_preempted_calls_make_a_smaller_number_format_worth_it():
    advice = kv_advice(a_profile(""), sums_with_preemptions(32))

    assert advice.startswith("The KV cache is too small: 3.2% of calls were preempted")
    assert 'Write kv_dtype = "fp8": it holds twice the tokens.' in advice


def test_few_preemptions_or_a_small_share_of_calls_are_no_reason():
    assert kv_advice(a_profile(""), sums_with_preemptions(9, 10)) == ""
    assert kv_advice(a_profile(""), sums_with_preemptions(99, 10_000)) == ""
    assert kv_advice(a_profile(""), {}) == ""


def test_a_cache_that_is_fp8_already_gets_another_remedy():
    advice = kv_advice(a_profile('kv_dtype = "fp8"'), sums_with_preemptions(50, dtype="fp8"))

    assert "It is fp8 already. Lower max_sequences or max_model_len" in advice
    assert "kv_dtype =" not in advice


def test_an_engine_without_fp8_is_advised_the_format_that_it_has():
    advice = kv_advice(a_profile("", "llamacpp"), sums_with_preemptions(50))

    assert 'kv_dtype = "int8"' in advice


def test_calls_that_wait_while_the_cache_is_full_are_a_reason_without_preemptions():
    sums = KVSums()
    for number in range(40):
        sums.add(page(waiting=number % 2, kv_usage=0.95), NOW)

    assert "for KV memory in 50% of readings" in kv_advice(a_profile(""), {"auto": sums})


@pytest.mark.parametrize(
    "reading",
    [page(waiting=3.0, kv_usage=0.5), page(waiting=0.0, kv_usage=0.99), page(running=0.0)],
    ids=["waits for other reasons", "full and no call waits", "idle"],
)
def test_readings_in_which_no_call_lacks_kv_memory_are_no_reason(reading):
    sums = KVSums()
    for _ in range(100):
        sums.add(reading, NOW)

    assert kv_advice(a_profile(""), {"auto": sums}) == ""


def test_sums_of_another_number_format_are_no_reason():
    assert kv_advice(a_profile('kv_dtype = "fp8"'), sums_with_preemptions(50)) == ""


def test_older_readings_of_a_kv_cache_weigh_less():
    sums = KVSums(preemptions=40.0, tokens=100.0, decode_s=2.0, last_at=NOW)
    sums.add(page(), NOW + 7 * DAY_S)

    assert sums.preemptions == pytest.approx(20.0)
    assert sums.tokens == pytest.approx(50.0)
    assert sums.tokens_per_s == 50.0


def test_formats_are_described_with_the_latest_last():
    first, last = KVSums(last_at=2.0), KVSums(last_at=1.0, tokens=30.0, decode_s=2.0)
    rows = list(describe_formats({"fp8": first, "auto": last}))

    assert [row["kv_dtype"] for row in rows] == ["auto", "fp8"]
    assert [row["tokens_per_s"] for row in rows] == [15.0, None]


def test_engines_that_count_no_preemptions_have_no_counters():
    histograms = {"queue_seconds": (1.0, 7.0)}

    assert kv_counters(EngineMetrics(values={"preemptions": 2.0})) is None
    assert kv_counters(EngineMetrics(histograms=histograms)) is None
    counters = kv_counters(EngineMetrics(values={"preemptions": 2.0}, histograms=histograms))
    assert counters == KVCounters(preemptions=2.0, calls=7.0)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=20))
def test_counters_that_fall_never_take_anything_away(readings):
    made, last = KVSums(), KVCounters(preemptions=0.0, calls=0.0)
    for preemptions, calls in readings:
        before = made.preemptions, made.calls
        now = KVCounters(preemptions=preemptions, calls=calls)
        made.add_growth(last, now)
        last = now

        assert made.preemptions >= before[0]
        assert made.calls >= before[1]
