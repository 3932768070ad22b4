"""Service level objectives (SLOs): the share of good calls, and which ended calls were good.

Every SLI is a share of good events, so two counters are enough to judge it: "95 percent of
first tokens within 500 ms" counts calls within and calls beyond. Such counts add up over time and
over processes, and no quantile has to be estimated.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from math import inf

import msgspec

from slo.alert import Severity
from slo.budgets.stages import Stage, StageBudget

#: Matches every team or feature, calls that name none included.
EVERY = "*"
#: Combinations of team, feature and kind of call whose objectives are remembered.
_MAX_REMEMBERED = 4096


class Metric(StrEnum):
    """The measured quantity of a call."""

    TTFT = "ttft"  # from its arrival to the first token; where none came, to its end
    TOTAL = "total"  # from its arrival to the last byte
    ERRORS = "errors"  # whether it failed
    COST = "cost"  # what it cost, all attempts together
    CACHE = "cache"  # how many of its input tokens were read from a provider's cache
    QUEUE = "queue"  # the wait until an engine began to work on it
    PREFILL = "prefill"  # an engine's reading of the prompt
    DECODE = "decode"  # an engine's first token to its last
    TRANSFER = "transfer"  # the rest of the time since it was sent to the engine


#: Metrics that are one stage of a call at a self-hosted engine.
STAGE_METRICS = {
    Metric.QUEUE: Stage.QUEUE,
    Metric.PREFILL: Stage.PREFILL,
    Metric.DECODE: Stage.DECODE,
    Metric.TRANSFER: Stage.TRANSFER,
}
#: Metrics whose limit is a time.
TIMED_METRICS = frozenset({Metric.TTFT, Metric.TOTAL, *STAGE_METRICS})


class Enforce(StrEnum):
    """The reaction to a missed objective."""

    OBSERVE = "observe"  # it is shown
    ALERT = "alert"  # people are notified
    DEGRADE = "degrade"  # calls go down its ladder, too
    SHED = "shed"  # calls are refused, too


class RequestKind(StrEnum):
    """The type of request that an objective applies to."""

    ALL = "all"
    STREAMS = "streams"
    WHOLE = "whole"  # not streamed


_REQUEST_KIND_TEXTS = {
    RequestKind.ALL: "",
    RequestKind.STREAMS: "streams only",
    RequestKind.WHOLE: "whole answers only",
}


def request_kind_text(calls: RequestKind) -> str:
    """Description of the calls that alone are meant; "" where all are."""
    return _REQUEST_KIND_TEXTS[calls]


class BurnAlert(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which people are notified that an error budget burns.

    Attributes:
        burn: Burn rate: the multiple of the allowed rate at which it is used up; 1 or more.
        over: Seconds of the long window; the short one, a twelfth of it, must burn as fast.
    """

    burn: float
    over: float
    severity: Severity = Severity.PAGE


class Objective(msgspec.Struct, frozen=True, kw_only=True):
    """A target for calls; ``slo.policies.objectives`` describes its fields.

    Attributes:
        target: The share of good events wanted, above 0 and below 1: 0.95 for the p95. Of a cache
            it is the floor: the share of input tokens that are read from it.
        under: Limit of TTFT, total time or a stage, in seconds; None for other metrics.
        under_nanos: Limit of a call's cost, in nano-dollars; None for other metrics.
        clear: Share from which a missed floor counts as kept again; None for the default
            (``burn.clear_share``), and for other metrics.
        alerts: Empty for the defaults (``burn.burn_alerts``).
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    calls: RequestKind = RequestKind.ALL
    metric: Metric
    target: float
    under: float | None = None
    under_nanos: int | None = None
    clear: float | None = None
    min_prompt: int = 1024
    enforce: Enforce = Enforce.ALERT
    ladder: tuple[str, ...] = ()
    alerts: tuple[BurnAlert, ...] = ()
    stages: tuple[StageBudget, ...] = ()


class CallMeasurements(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of an ended call that objectives judge.

    Attributes:
        feature: Part of the caller's product it served; "" where not stated.
        ttft: Seconds from arrival to the first token the caller was sent; None where none was.
        total: Seconds from arrival to the end, whichever it was.
        failed: True if the caller got an error, or an answer cut short by one.
        hung_up: True if the caller disconnected.
        cost_nanos: Cost of all its attempts in nano-dollars; None where the price of one is
            unknown.
        prompt_tokens: Its input tokens, with those read from and written to caches; 0 if unknown.
        cache_read: Those that were read from a provider's cache.
        first_turn: True if nothing of its conversation was sent before, so no cache can hold it.
        generated: True if it asks for inference; listing, reading and deleting do not.
        phases: Seconds of its stages, as far as they are known.
    """

    team: str
    feature: str
    streamed: bool
    ttft: float | None
    total: float
    failed: bool
    hung_up: bool
    cost_nanos: int | None
    prompt_tokens: int
    cache_read: int
    first_turn: bool
    generated: bool
    phases: Mapping[Stage, float] = {}


class ObjectiveIndex:
    """Objectives by the calls they are about."""

    def __init__(self, objectives: Iterable[Objective]) -> None:
        self.every = tuple(objectives)
        self._teams = {objective.team for objective in self.every}
        self._features = {objective.feature for objective in self.every}
        self._found = lru_cache(maxsize=_MAX_REMEMBERED)(self._applicable)

    def applicable(self, team: str, feature: str, streamed: bool) -> tuple[Objective, ...]:  # noqa: FBT001 - a key of the cache
        """The objectives that a call counts in, in order; () for none.

        Names that no objective speaks of are all alike, so that what is remembered is bounded by
        the objectives and not by what callers call things.
        """
        return self._found(
            team if team in self._teams else EVERY,
            feature if feature in self._features else EVERY,
            streamed,
        )

    def _applicable(self, team: str, feature: str, streamed: bool) -> tuple[Objective, ...]:  # noqa: FBT001 - the same
        return tuple(
            objective
            for objective in self.every
            if objective.team in {EVERY, team}
            and objective.feature in {EVERY, feature}
            and _is_meant(objective.calls, streamed=streamed)
        )


def classify_call(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    """The call's counts of good and bad events; None if it is no valid event.

    One of them is 1, the other 0; for CACHE they are its input tokens, read and not read.

    - A call that failed is bad for ERRORS. For TTFT and TOTAL it is bad if it took longer than it
      may, and does not count if not: a quick error is no quick answer.
    - A caller who leaves does not count, unless it waited longer than it should have.
    - A call of unknown cost does not count for COST, and one of unknown phases for no stage.
    - For CACHE only those prompts count that could have been read from one.
    - What no model worked on counts for nothing.

    Args:
        objective: One that the call counts in, as ``ObjectiveIndex.applicable`` says.
    """
    return _CLASSIFIERS[objective.metric](objective, ended) if ended.generated else None


def _classify_ttft(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    waited = ended.total if ended.ttft is None else ended.ttft
    left = ended.hung_up and ended.ttft is None
    is_empty = ended.streamed and ended.ttft is None
    return _classify_wait(objective, waited, has_come=not (ended.failed or left or is_empty))


def _classify_total(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    return _classify_wait(objective, ended.total, has_come=not (ended.failed or ended.hung_up))


def _classify_wait(
    objective: Objective, waited: float, *, has_come: bool
) -> tuple[int, int] | None:
    """Bad if it was waited for too long; else good if what was waited for came."""
    if waited > (inf if objective.under is None else objective.under):
        return 0, 1
    return (1, 0) if has_come else None


def _classify_stage(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    seconds = ended.phases.get(STAGE_METRICS[objective.metric])
    if seconds is None:
        return None
    return _classify_wait(objective, seconds, has_come=True)


def _classify_error(_: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    if ended.failed:
        return 0, 1
    return None if ended.hung_up else (1, 0)


def _classify_cost(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    if ended.cost_nanos is None:
        return None
    is_over = objective.under_nanos is not None and ended.cost_nanos > objective.under_nanos
    return (0, 1) if is_over else (1, 0)


def _classify_cache(objective: Objective, ended: CallMeasurements) -> tuple[int, int] | None:
    if ended.first_turn or ended.prompt_tokens < max(objective.min_prompt, 1):
        return None
    read = min(ended.cache_read, ended.prompt_tokens)
    return read, ended.prompt_tokens - read


_CLASSIFIERS = {
    Metric.TTFT: _classify_ttft,
    Metric.TOTAL: _classify_total,
    Metric.ERRORS: _classify_error,
    Metric.COST: _classify_cost,
    Metric.CACHE: _classify_cache,
    **dict.fromkeys(STAGE_METRICS, _classify_stage),
}


def _is_meant(calls: RequestKind, *, streamed: bool) -> bool:
    return calls is RequestKind.ALL or (calls is RequestKind.STREAMS) == streamed
