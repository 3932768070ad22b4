"""Figures of many calls: percentiles, throughput, goodput, errors by name.

Words are those of vLLM's and NVIDIA's tools: TTFT, ITL (time per output token after the first, also
called TPOT), inter-chunk latency, E2EL, request throughput, goodput. Times are milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from proxy.tools.bench.prompts import PrefixState
from proxy.tools.bench.stream_timing import CallTiming, EngineTiming

_MS: Final = 1000.0
#: Limits that goodput may have, and the figure of a call that each one is held against.
_LIMITED: Final[Mapping[str, Callable[[CallTiming], float | None]]] = {
    "ttft": lambda call: call.ttft_s,
    "itl": lambda call: call.itl_s,
    "tpot": lambda call: call.itl_s,
    "e2el": lambda call: call.e2el_s,
}


class LatencyPercentiles(msgspec.Struct, frozen=True):
    """LatencyPercentiles of a sample by the nearest rank: each is a value that was seen."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "LatencyPercentiles | None":
        """Of those values that are known, seconds as milliseconds; None if none is."""
        numbers = sorted(value * _MS for value in values if value is not None)
        if not numbers:
            return None
        ranks = (numbers[max(0, -(-len(numbers) * percent // 100) - 1)] for percent in (50, 95, 99))
        figures = (sum(numbers) / len(numbers), *ranks, numbers[-1])
        return cls(*(round(figure, 3) for figure in figures))


class CellShape(msgspec.Struct, frozen=True, kw_only=True):
    """One combination that is measured.

    Attributes:
        concurrency: Callers that each send the next call once the last one was answered.
    """

    prompt_tokens: int
    prefix: PrefixState
    concurrency: int


class CellFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one combination.

    Attributes:
        calls: Calls that were answered whole.
        failed: Calls that failed; they are in no other figure.
        seconds: Seconds from the first call's start to the last one's end.
        ttft_ms: From sending to the first chunk with content.
        itl_ms: Time of an output token after the first, a mean per call, by the usage told.
        icl_ms: Inter-chunk latency: every gap between two chunks with content.
        e2el_ms: From sending to the answer's end.
        goodput_share: The part of all calls that was within them.
        prompt_tokens: Median of the tokens that the usage tells.
        engine_queue_ms: Median of the engine's own account, as the next two.
        acceptance_rate: Accepted ÷ draft tokens of speculation; None if not told.
        client_load: Processor time of this client ÷ time.
    """

    shape: CellShape
    calls: int
    failed: int
    errors: Mapping[str, int]
    seconds: float
    ttft_ms: LatencyPercentiles | None
    itl_ms: LatencyPercentiles | None
    icl_ms: LatencyPercentiles | None
    e2el_ms: LatencyPercentiles | None
    requests_per_s: float
    output_tokens_per_s: float | None
    goodput_per_s: float | None
    goodput_share: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    tokens_per_chunk: float | None
    cached_share: float | None
    engine_queue_ms: float | None
    engine_prefill_ms: float | None
    engine_decode_ms: float | None
    acceptance_rate: float | None
    client_load: float


def parse_goodput(text: str) -> dict[str, float]:
    """Limits such as ``ttft:500,itl:50``, in milliseconds.

    Raises:
        ValueError: If one is not of that form.
    """
    limits = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        name, _, limit = part.partition(":")
        if name not in _LIMITED:
            raise ValueError(f"{name!r} is none of {', '.join(_LIMITED)}")
        limits[name] = float(limit)
    return limits


def cell_figures(
    shape: CellShape,
    timings: Sequence[CallTiming],
    limits_ms: Mapping[str, float],
    client_load: float,
) -> CellFigures:
    """The figures of one combination's calls.

    Args:
        timings: Its calls, failed ones too; at least one.
    """
    good = [call for call in timings if not call.error]
    seconds = max(call.ended_s for call in timings) - min(call.started_s for call in timings)
    seconds = max(seconds, 1e-9)
    within = sum(_is_within(call, limits_ms) for call in good)
    output = _sum_known(call.output_tokens for call in good)
    return CellFigures(
        shape=shape,
        calls=len(good),
        failed=len(timings) - len(good),
        errors=dict(Counter(call.error for call in timings if call.error).most_common()),
        seconds=round(seconds, 3),
        ttft_ms=LatencyPercentiles.of(call.ttft_s for call in good),
        itl_ms=LatencyPercentiles.of(call.itl_s for call in good),
        icl_ms=LatencyPercentiles.of(gap for call in good for gap in call.chunk_gaps_s),
        e2el_ms=LatencyPercentiles.of(call.e2el_s for call in good),
        requests_per_s=round(len(good) / seconds, 3),
        output_tokens_per_s=None if output is None else round(output / seconds, 1),
        goodput_per_s=round(within / seconds, 3) if limits_ms else None,
        goodput_share=round(within / len(timings), 4) if limits_ms else None,
        prompt_tokens=_median(call.prompt_tokens for call in good),
        output_tokens=_median(call.output_tokens for call in good),
        tokens_per_chunk=_mean([call.tokens_per_chunk for call in good]),
        cached_share=_cached_share(good),
        engine_queue_ms=_engine_ms(good, lambda engine: engine.queue_s),
        engine_prefill_ms=_engine_ms(good, lambda engine: engine.prefill_s),
        engine_decode_ms=_engine_ms(good, lambda engine: engine.decode_s),
        acceptance_rate=_acceptance_rate(good),
        client_load=round(client_load, 3),
    )


def _is_within(call: CallTiming, limits_ms: Mapping[str, float]) -> bool:
    """True if a call is within all limits; an unknown figure is within none."""
    for name, limit in limits_ms.items():
        value = _LIMITED[name](call)
        if value is None or value * _MS > limit:
            return False
    return True


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """The sum of the counts; None if one is unknown, or there are none."""
    known_counts = list(counts)
    if not known_counts or None in known_counts:
        return None
    return sum(count for count in known_counts if count is not None)


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return round(median(numbers), 3) if numbers else None


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return round(sum(numbers) / len(numbers), 3) if numbers else None


def _cached_share(calls: Sequence[CallTiming]) -> float | None:
    counted = [call for call in calls if call.cached_tokens is not None and call.prompt_tokens]
    prompt = sum(call.prompt_tokens or 0 for call in counted)
    return round(sum(call.cached_tokens or 0 for call in counted) / prompt, 4) if prompt else None


def _engine_ms(
    calls: Sequence[CallTiming], of: Callable[[EngineTiming], float | None]
) -> float | None:
    median_ms = _median(of(call.engine) for call in calls if call.engine is not None)
    return None if median_ms is None else round(median_ms * _MS, 3)


def _acceptance_rate(calls: Sequence[CallTiming]) -> float | None:
    engines = [
        call.engine for call in calls if call.engine is not None and call.engine.draft_tokens
    ]
    drafts = sum(engine.draft_tokens or 0 for engine in engines)
    return (
        round(sum(engine.accepted_tokens or 0 for engine in engines) / drafts, 4)
        if drafts
        else None
    )
