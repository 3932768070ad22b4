"""Advice on the KV cache, from preemptions and from calls that wait for room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.decode_speed import SpeedSums
from proxy.engines.kv_pressure import KVCounters, KVPressure, kv_advice, kv_counters
from proxy.engines.metrics_page import EngineMetrics
from tests.fakes.engine_profiles import a_profile

NOW = 1_790_000_000.0
DAY_S = 86_400.0


def page(running: float = 4.0, waiting: float = 0.0, kv_usage: float = 0.5) -> EngineMetrics:
    return EngineMetrics(values={"running": running, "waiting": waiting, "kv_usage": kv_usage})


def pressure(preemptions: float = 0.0, calls: float = 1_000.0, dtype: str = "auto") -> KVPressure:
    made = KVPressure(kv_dtype=dtype)
    zero = KVCounters(preemptions=0.0, calls=0.0)
    made.add_growth(zero, KVCounters(preemptions=preemptions, calls=calls))
    return made


def test_preempted_calls_make_a_smaller_number_format_worth_it():
    said = kv_advice(a_profile(""), pressure(preemptions=32))

    assert said.startswith("The KV cache is too small: 3.2% of calls were preempted")
    assert 'Write kv_dtype = "fp8": it holds twice the tokens.' in said


def test_few_preemptions_or_a_small_share_of_calls_are_no_reason():
    assert kv_advice(a_profile(""), pressure(preemptions=9, calls=10)) == ""
    assert kv_advice(a_profile(""), pressure(preemptions=99, calls=10_000)) == ""
    assert kv_advice(a_profile(""), KVPressure(kv_dtype="auto")) == ""


def test_a_cache_that_is_fp8_already_gets_another_remedy():
    said = kv_advice(a_profile('kv_dtype = "fp8"'), pressure(preemptions=50, dtype="fp8"))

    assert "It is fp8 already. Lower max_sequences or max_model_len" in said
    assert "kv_dtype =" not in said


def test_an_engine_without_fp8_is_advised_the_format_that_it_has():
    said = kv_advice(a_profile("", "llamacpp"), pressure(preemptions=50))

    assert 'kv_dtype = "int8"' in said


def test_calls_that_wait_while_the_cache_is_full_are_a_reason_without_preemptions():
    made = KVPressure(kv_dtype="auto")
    for number in range(40):
        made.add("auto", page(waiting=number % 2, kv_usage=0.95), NOW)

    assert "calls waited for KV memory in 50% of readings" in kv_advice(a_profile(""), made)


@pytest.mark.parametrize(
    "each",
    [page(waiting=3.0, kv_usage=0.5), page(waiting=0.0, kv_usage=0.99), page(running=0.0)],
    ids=["waits for other reasons", "full and nobody waits", "idle"],
)
def test_readings_in_which_no_call_lacks_kv_memory_are_no_reason(each):
    made = KVPressure(kv_dtype="auto")
    for _ in range(100):
        made.add("auto", each, NOW)

    assert kv_advice(a_profile(""), made) == ""


def test_another_number_format_begins_anew_and_its_sums_are_no_reason_for_the_other():
    made = pressure(preemptions=50)
    assert kv_advice(a_profile('kv_dtype = "fp8"'), made) == ""

    made.add("fp8", page(), NOW)
    assert (made.preemptions, made.calls, made.readings) == (0.0, 0.0, 1.0)
    assert made.previous is not None
    assert (made.previous.kv_dtype, made.previous.preemptions) == ("auto", 50.0)


def test_the_sums_of_one_earlier_format_are_kept_and_no_more():
    made = pressure(preemptions=50)
    for dtype in ("fp8", "int8", "int4"):
        made.add(dtype, page(), NOW)

    assert made.sums_of("int4") is made
    assert made.sums_of("int8") is made.previous
    assert made.sums_of("fp8") is None
    assert made.sums_of("auto") is None


def test_a_format_that_served_no_call_does_not_displace_the_one_before_it():
    made = pressure(preemptions=50)
    made.add("int8", page(running=0.0), NOW)
    made.add("fp8", page(), NOW)

    assert made.previous is not None
    assert (made.previous.kv_dtype, made.previous.preemptions) == ("auto", 50.0)
    made.add("auto", page(), NOW)
    assert made.previous.kv_dtype == "fp8"


def test_a_format_that_comes_back_goes_on_with_its_own_sums():
    made = KVPressure()
    for dtype in ("auto", "fp8", "auto", "int8", "auto"):
        made.add(dtype, page(), NOW)
    made.add("int8", page(running=0.0), NOW)

    assert (made.kv_dtype, made.readings) == ("int8", 1.0)
    assert made.sums_of("auto") is made.previous
    assert made.previous is not None
    assert made.previous.readings == 3.0


def test_output_is_added_up_by_speculation_and_by_sequences_at_once():
    made = KVPressure(kv_dtype="auto")
    for sequences in (0.5, 3.0, 4.0, 5.0, 9_000.0):
        made.add_output("none", sequences, 100.0, 2.0)
    made.add_output("none", 4.0, 0.0, 2.0)  # no output says nothing of a speed

    assert sorted(made.speeds["none"]) == [1, 4, 8, 1_024]
    twice = SpeedSums(
        samples=2, tokens=200.0, decode_s=4.0, rate_squares=10_000.0, pairs=1, last_rate=50.0
    )
    assert made.speeds["none"][4] == twice


def test_few_settings_of_speculation_are_kept_and_the_least_measured_goes():
    made = KVPressure(kv_dtype="auto")
    for _ in range(2):
        made.add_output("none", 1.0, 100.0, 2.0)
    for depth in range(20):
        made.add_output(f"ngram:{depth}", 1.0, 100.0, 2.0)

    assert len(made.speeds) == 8
    assert "none" in made.speeds


def test_older_readings_weigh_less():
    made = pressure(preemptions=40)
    made.add_output("none", 1.0, 100.0, 2.0)
    made.last_at = NOW
    made.add("auto", page(), NOW + 7 * DAY_S)

    assert made.preemptions == pytest.approx(20.0, rel=0.01)
    assert made.speeds["none"][1].tokens == pytest.approx(50.0, rel=0.01)


def test_engines_that_count_no_preemptions_have_no_counters():
    histograms = {"queue_seconds": (1.0, 7.0)}

    assert kv_counters(EngineMetrics(values={"preemptions": 2.0})) is None
    assert kv_counters(EngineMetrics(histograms=histograms)) is None
    found = kv_counters(EngineMetrics(values={"preemptions": 2.0}, histograms=histograms))
    assert found == KVCounters(preemptions=2.0, calls=7.0)


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=20))
def test_counters_that_fall_never_take_anything_away(readings):
    made, last = KVPressure(), KVCounters(preemptions=0.0, calls=0.0)
    for preemptions, calls in readings:
        before = made.preemptions, made.calls
        now = KVCounters(preemptions=preemptions, calls=calls)
        made.add_growth(last, now)
        last = now

        assert made.preemptions >= before[0]
        assert made.calls >= before[1]
