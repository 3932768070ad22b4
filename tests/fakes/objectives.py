"""Objectives and ends of calls, made up; and every sound objective there could be."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from slo.alert import Severity
from slo.budgets.counter import MAX_AMOUNT
from slo.budgets.stages import STAGES_OF_TTFT, Stage, StageBudget
from slo.objectives import ladder_levels
from slo.objectives.burn import (
    MAX_ALERT_WINDOW_S,
    MAX_CACHE_SHARE,
    MIN_ALERT_WINDOW_S,
    max_burn_rate,
)
from slo.objectives.objective import (
    TIMED_METRICS,
    BurnAlert,
    CallMeasurements,
    Enforce,
    Metric,
    Objective,
    RequestKind,
)

TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
_SECONDS = st.integers(1, 86_400 * 10**9).map(lambda nanos: round(nanos / 10**9, 9))
_HUNDREDTHS = st.integers(100, 9_900).map(lambda n: n / 10_000)


def objective(**fields: Any) -> Objective:
    """A p95 of answers, at most 2 seconds, unless told otherwise."""
    metric = fields.get("metric", Metric.TOTAL)
    is_timed = metric in TIMED_METRICS
    return Objective(
        **{
            "name": "o",
            "metric": metric,
            "target": 0.95,
            "under": 2.0 if is_timed else None,
            "under_nanos": 50_000_000 if metric is Metric.COST else None,
            **fields,
        }
    )


def call_measurements(**fields: Any) -> CallMeasurements:
    """A stream of which all is well, unless told otherwise."""
    return CallMeasurements(
        **{
            "team": "acme",
            "feature": "chat",
            "streamed": True,
            "ttft": 0.25,
            "total": 1.0,
            "failed": False,
            "hung_up": False,
            "cost_nanos": 1_000_000,
            "prompt_tokens": 2_000,
            "cache_read": 1_500,
            "first_turn": False,
            "generated": True,
            **fields,
        }
    )


@st.composite
def objectives(draw: st.DrawFn, metrics: Sequence[Metric] = tuple(Metric)) -> Objective:
    """Sound ones, of every kind, or of these metrics."""
    metric = draw(st.sampled_from(metrics))
    is_cache = metric is Metric.CACHE
    target = draw(_HUNDREDTHS if not is_cache else st.integers(100, 9_800).map(_part))
    allowed = [Enforce.OBSERVE, Enforce.ALERT] if is_cache else list(Enforce)
    enforce = draw(st.sampled_from(allowed))
    under = draw(_SECONDS) if metric in TIMED_METRICS else None
    return Objective(
        name=draw(_NAMES),
        team=draw(TEXTS),
        feature=draw(st.just("") | TEXTS),
        calls=draw(st.sampled_from(RequestKind)),
        metric=metric,
        target=target,
        under=under,
        stages=draw(_stages(metric, under or 0.0)),
        under_nanos=draw(st.integers(1, MAX_AMOUNT)) if metric is Metric.COST else None,
        clear=draw(_edges(target)) if is_cache else None,
        min_prompt=draw(st.integers(1, 10**6)) if is_cache else 1024,
        enforce=enforce,
        ladder=draw(_ladders(enforce)),
        alerts=() if is_cache else tuple(draw(st.lists(_alerts(target), max_size=3))),
    )


def _stages(metric: Metric, under: float) -> st.SearchStrategy[tuple[StageBudget, ...]]:
    """Budgets of some of the stages that the metric has, in their order."""
    allowed = {Metric.TTFT: STAGES_OF_TTFT, Metric.TOTAL: frozenset(Stage)}.get(metric)
    if not allowed:
        return st.just(())
    return st.sets(st.sampled_from(sorted(allowed))).map(
        lambda some: tuple(StageBudget(stage, under) for stage in Stage if stage in some)
    )


def _part(n: int) -> float:
    return n / 10_000


def _edges(target: float) -> st.SearchStrategy[float | None]:
    edges = st.integers(round(target * 10_000) + 1, round(MAX_CACHE_SHARE * 10_000)).map(_part)
    return edges | st.none() if target < MAX_CACHE_SHARE - 0.0001 else edges


def _alerts(target: float) -> st.SearchStrategy[BurnAlert]:
    return st.builds(
        BurnAlert,
        burn=st.floats(1, min(max_burn_rate(target), 10**6)),
        over=st.integers(int(MIN_ALERT_WINDOW_S / 60), int(MAX_ALERT_WINDOW_S / 60)).map(
            lambda n: n * 60.0
        ),
        severity=st.sampled_from(Severity),
    )


@st.composite
def _ladders(draw: st.DrawFn, enforce: Enforce) -> tuple[str, ...]:
    names = TEXTS.filter(lambda name: name not in {"requested", "elsewhere", "cache-only", "shed"})
    models = draw(st.lists(names, max_size=4, unique=True))
    first = draw(st.sampled_from([[], [ladder_levels.ELSEWHERE]]))
    cached = draw(st.sampled_from([[], [ladder_levels.CACHE_ONLY]]))
    is_shed = enforce is Enforce.SHED or draw(st.booleans())
    ladder = (*first, *models, *cached, *([ladder_levels.SHED] if is_shed else []))
    return ladder or ((ladder_levels.ELSEWHERE,) if enforce is Enforce.DEGRADE else ())
