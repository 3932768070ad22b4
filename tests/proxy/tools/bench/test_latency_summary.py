import pytest

from proxy.tools.bench.latency_summary import (
    CellFigures,
    CellShape,
    LatencyPercentiles,
    cell_figures,
    parse_goodput,
)
from proxy.tools.bench.prompts import PrefixState
from proxy.tools.bench.stream_timing import CallTiming, EngineTiming

SHAPE = CellShape(prompt_tokens=128, prefix=PrefixState.COLD, concurrency=2)


def call(start: float = 0.0, **changes: object) -> CallTiming:
    figures: dict[str, object] = {
        "ended_s": start + 1.0,
        "ttft_s": 0.2,
        "chunk_gaps_s": (0.3, 0.3),
        "prompt_tokens": 100,
        "output_tokens": 7,
        "streamed_tokens": 7,
    }
    return CallTiming(started_s=start, **figures | changes)  # type: ignore[arg-type]


def failure(name: str) -> CallTiming:
    return CallTiming(started_s=0.0, ended_s=0.1, error=name)


def figures(*calls: CallTiming, **limits: float) -> CellFigures:
    return cell_figures(SHAPE, calls, limits, 0.01)


def test_percentiles_are_values_that_were_seen():
    percentiles = LatencyPercentiles.of(n / 1000 for n in range(1, 101))

    assert percentiles == LatencyPercentiles(50.5, 50.0, 95.0, 99.0, 100.0)
    assert LatencyPercentiles.of([None]) is None


def test_failed_calls_are_counted_by_name_and_in_no_other_figure():
    summary = figures(call(), failure("HTTP 429"), failure("HTTP 429"), failure("timeout"))

    assert (summary.calls, summary.failed) == (1, 3)
    assert summary.errors == {"HTTP 429": 2, "timeout": 1}
    assert summary.ttft_ms is not None
    assert summary.ttft_ms.max == 200.0


def test_throughput_is_per_second_from_the_first_start_to_the_last_end():
    summary = figures(call(0.0), call(1.0))

    assert (summary.seconds, summary.requests_per_s, summary.output_tokens_per_s) == (2.0, 1.0, 7.0)


def test_itl_is_per_token_and_inter_chunk_latency_per_chunk():
    summary = figures(call())

    assert summary.itl_ms is not None
    assert summary.icl_ms is not None
    assert (summary.itl_ms.p50, summary.icl_ms.p50) == (100.0, 300.0)
    assert summary.tokens_per_chunk == pytest.approx(7 / 3, abs=0.001)


def test_one_answer_of_unknown_tokens_makes_their_rate_unknown():
    unknown = call(output_tokens=None, streamed_tokens=None)

    assert figures(call(), unknown).output_tokens_per_s is None


def test_goodput_counts_calls_within_every_limit_and_failures_as_bad():
    summary = figures(call(), call(ttft_s=0.6), failure("x"), call(), ttft=500, itl=150)

    assert summary.goodput_share == 0.5
    assert summary.goodput_per_s == 2.0
    assert figures(call()).goodput_share is None


def test_cached_share_is_of_tokens_and_unknown_where_nothing_is_told():
    summary = figures(call(cached_tokens=90), call(cached_tokens=0, prompt_tokens=300))

    assert summary.cached_share == pytest.approx(90 / 400)
    assert figures(call()).cached_share is None


def test_the_engines_own_account_is_summed_up():
    engine = EngineTiming(prefill_s=0.1, decode_s=0.5, draft_tokens=10, accepted_tokens=7)
    summary = figures(call(engine=engine), call())

    assert (summary.engine_prefill_ms, summary.engine_decode_ms) == (100.0, 500.0)
    assert summary.engine_queue_ms is None
    assert summary.acceptance_rate == 0.7


def test_goodput_limits_are_names_and_milliseconds():
    assert parse_goodput("ttft:500, tpot:50") == {"ttft": 500.0, "tpot": 50.0}
    assert parse_goodput("") == {}
    with pytest.raises(ValueError, match="'speed' is none of ttft"):
        parse_goodput("speed:5")
