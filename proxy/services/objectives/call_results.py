"""Judges ended calls by their objectives: measurements, and the stages that made them late."""

from collections.abc import Iterable, Mapping
from typing import Final

from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.services.objectives.objective_state import TrackedObjective
from slo.budgets.stages import Stage, StageMisses, broken_stage
from slo.objectives.objective import CallMeasurements, Metric

#: Seconds after which a call that was refused may be tried again.
_RETRY_AFTER_S: Final = 30.0


def measure_call(
    call: Call, receipt: Receipt, nanos: int | None, *, first_turn: bool
) -> CallMeasurements:
    """The measurements of a call that ended.

    Args:
        receipt: Its last attempt's.
        nanos: Cost of all its attempts; None where one is unknown.
        first_turn: True if nothing of its conversation was sent before.
    """
    usage = receipt.usage
    return CallMeasurements(
        team=call.key.team_name,
        feature=call.feature,
        streamed=call.is_streaming,
        ttft=receipt.ttft,
        total=receipt.duration,
        failed=receipt.outcome in {Outcome.FAILED, Outcome.BROKEN},
        hung_up=receipt.outcome is Outcome.HUNG_UP,
        cost_nanos=nanos,
        prompt_tokens=usage.prompt_tokens if usage is not None else 0,
        cache_read=usage.cache_read if usage is not None else 0,
        first_turn=first_turn,
        generated=receipt.outcome is not Outcome.REFUSED,
        phases=_phases(receipt),
    )


def _phases(receipt: Receipt) -> Mapping[Stage, float]:
    """Seconds of the stages that are known; of a provider's calls, the gateway's alone."""
    seconds_by_stage = {
        Stage.GATEWAY: receipt.overhead,
        Stage.QUEUE: receipt.queue,
        Stage.PREFILL: receipt.prefill,
        Stage.DECODE: receipt.decode,
        Stage.TRANSFER: receipt.transfer,
    }
    return {stage: seconds for stage, seconds in seconds_by_stage.items() if seconds is not None}


def note_broken_stage(
    misses: StageMisses, track: TrackedObjective, ended: CallMeasurements
) -> None:
    """Note the stage that a late call of an objective with stages broke."""
    stages = track.objective.stages
    if stages:
        misses.note(track.name, broken_stage(stages, ended.phases))


def fallback_reason(
    track: TrackedObjective, level: int, misses: StageMisses, *, is_pinned: bool
) -> str:
    """The reason for a fallback level: the objective, the level, and the stage that broke it."""
    stage = None if is_pinned else misses.most_broken(track.name)
    why = ", pinned" if is_pinned else f", {stage.stage} is late" if stage is not None else ""
    return f"{track.name}: fallback level {level}{why}"


def load_shed(track: TrackedObjective, *, is_pinned: bool) -> CallerError:
    """The refusal of a call whose fallback level sheds calls."""
    why = "is pinned to a fallback level that refuses new calls" if is_pinned else "is missed"
    until = "it is released" if is_pinned else "others are served in time again"
    error = CallerError(
        f"The objective `{track.name}` {why}, so this call is refused until {until}."
        " Try again shortly.",
        code="objective_shed",
        retry_after=_RETRY_AFTER_S,
        status=429,
    )
    error.details = {"objective": track.name}
    return error


def levels_by_route(track: TrackedObjective, catalog: Catalog) -> dict[str, int]:
    """The level of each route whose model is on the ladder, by the route's name."""
    levels: dict[str, int] = {}
    for level, entry in enumerate(track.objective.ladder, 1):
        model = catalog.models.get(entry)
        for route in model.routes if model is not None else ():
            levels.setdefault(route.name, level)
    return levels


def first_content_deadline(tracks: Iterable[TrackedObjective]) -> float | None:
    """Seconds to the first content of a stream, by the strictest objective that acts."""
    limits = [
        track.objective.under
        for track in tracks
        if track.acts and track.objective.metric is Metric.TTFT and track.objective.under
    ]
    return min(limits, default=None)
