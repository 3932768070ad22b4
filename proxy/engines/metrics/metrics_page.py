"""Reads an engine's metrics page: its load, its counters and the room of its prefix cache; pure.

The page is Prometheus text of up to thousands of lines, of which a few are wanted. Those are picked
by their names first, and only they are parsed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Final, NamedTuple

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from proxy.engines.adapters.adapter import EngineAdapter, MetricNames

_HISTOGRAMS: Final = frozenset({"queue_seconds", "prefill_seconds", "decode_seconds"})
#: A share of something, so that series are not added up.
_SHARE: Final = "kv_usage"
_CACHE_CONFIG: Final = "cache_config"
_CACHE_TOKENS: Final = "cache_tokens"
_LOAD: Final = ("running", "waiting")
#: Figures that routing goes by; others are absent without speculation or histograms.
_WANTED: Final = (*_LOAD, "kv_usage", "prefix_hits", "prompt_tokens", "generation_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics:
    """An engine's metrics, as one page says them.

    Attributes:
        values: Gauges and counters by their field of ``MetricNames``, all series added up; of a
            share the largest.
        histograms: Sum of seconds and number of calls, by field.
        cache_tokens: Room of the prefix cache; None where it is not said.
        missing: Fields that routing goes by, for which the adapter knows names, and none of them
            is exported.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    histograms: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    cache_tokens: int | None = None
    missing: tuple[str, ...] = ()

    def value(self, name: str) -> float | None:
        """A gauge or counter by its field of ``MetricNames``; None where it is not exported."""
        return self.values.get(name)

    @property
    def load(self) -> float:
        """Calls that run and wait; 0 where it is not said."""
        return sum(self.values.get(name, 0.0) for name in _LOAD)

    @property
    def has_load(self) -> bool:
        """True if it says how many calls run or wait."""
        return any(name in self.values for name in _LOAD)

    @property
    def shortcoming(self) -> str:
        """Say which figures are missing, and what that means; "" where none is."""
        if not self.missing:
            return ""
        what = "its load alone is known" if self.has_load else "not even its load is known"
        return f"{what}: the engine does not export {', '.join(self.missing)}"


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics_page(text: str, adapter: EngineAdapter) -> EngineMetrics:
    """The engine's metrics on a page.

    Raises:
        ValueError: If a wanted line is no Prometheus text.
    """
    names_by_field = {
        metric.name: getattr(adapter.metrics, metric.name) for metric in fields(MetricNames)
    }
    heads = {name for names in names_by_field.values() for name in names}
    by_name: dict[str, list[_Sample]] = {}
    for sample in _samples(_wanted_lines(text, heads)):
        by_name.setdefault(sample.name, []).append(sample)
    values: dict[str, float] = {}
    histograms: dict[str, tuple[float, float]] = {}
    samples_by_field: dict[str, list[_Sample]] = {}
    missing = []
    for name, names in names_by_field.items():
        if name in _HISTOGRAMS:
            totals = _histogram(by_name, names)
            if totals is not None:
                histograms[name] = totals
        elif samples := next((by_name[alias] for alias in names if alias in by_name), []):
            samples_by_field[name] = samples
            join = max if name == _SHARE else sum
            values[name] = float(join(sample.value for sample in samples))
        if names and name in _WANTED and name not in values:
            missing.append(name)
    return EngineMetrics(
        values=values,
        histograms=histograms,
        cache_tokens=_cache_tokens(samples_by_field),
        missing=tuple(missing),
    )


class EngineProperties(NamedTuple):
    """The properties that an engine states beside its metrics.

    Attributes:
        cache_tokens: Room of its prefix cache; None where it is not said.
        slots: Calls that it runs at once; 0 where it is not said.
    """

    cache_tokens: int | None
    slots: int


def parse_engine_properties(body: bytes) -> EngineProperties | None:
    """The slots that llama.cpp's ``/props`` names; its cache is the context of all of them.

    Source: llama.cpp server, GET /props, build 11549, as it answered (2026-11).
    """
    try:
        properties = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    settings = (
        properties.get("default_generation_settings") if isinstance(properties, dict) else None
    )
    if not isinstance(settings, dict):
        return None
    context, slots = settings.get("n_ctx"), properties.get("total_slots", 1)
    is_sound = _is_count(context) and _is_count(slots)
    return EngineProperties(context * slots, slots) if is_sound else None


def _is_count(value: Any) -> bool:  # noqa: ANN401 - whatever JSON can say
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _wanted_lines(text: str, heads: Iterable[str]) -> str:
    """The lines of metrics with these names, or of their histograms' sums and counts."""
    names = frozenset(heads)
    names |= {f"{name}{end}" for name in names for end in ("_sum", "_count")}
    lines = []
    for line in text.split("\n"):
        end = line.find("{")
        name = line[:end] if end > 0 else line[: line.find(" ")]
        if name in names:
            lines.append(line)
    return "\n".join([*lines, ""])


def _samples(text: str) -> Iterator[_Sample]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if isfinite(sample.value):
                yield _Sample(sample.name, sample.labels, sample.value)


def _histogram(
    by_name: Mapping[str, list[_Sample]], names: Iterable[str]
) -> tuple[float, float] | None:
    for name in names:
        if f"{name}_sum" in by_name and f"{name}_count" in by_name:
            total, count = (
                float(sum(sample.value for sample in by_name[name + end]))
                for end in ("_sum", "_count")
            )
            return total, count
    return None


def _cache_tokens(samples_by_field: Mapping[str, list[_Sample]]) -> int | None:
    """Blocks by their size, of all engines behind one port; or a gauge that says it."""
    rooms = [_room(sample.labels) for sample in samples_by_field.get(_CACHE_CONFIG, [])]
    if rooms and all(rooms):
        return sum(rooms)
    gauges = [
        int(sample.value) for sample in samples_by_field.get(_CACHE_TOKENS, []) if sample.value > 0
    ]
    return sum(gauges) or None


def _room(labels: Mapping[str, str]) -> int:
    """Tokens by ``num_gpu_blocks`` and ``block_size``; 0 where one is none."""
    blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    return int(blocks) * int(size) if blocks.isdecimal() and size.isdecimal() else 0
