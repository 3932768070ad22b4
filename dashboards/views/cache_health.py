"""Health of provider caches: what ``/api/v1/cache`` answers and a page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from dashboards.prompt_differences import PromptDifference
from dashboards.report_periods import BucketUnit

CacheDimension = Literal["team", "feature", "model", "route", "provider", "regime"]
"""A dimension that hit rates are split by; a regime is a set of rules that a cache follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSums:
    """Tokens of prompts, summed.

    Attributes:
        read_tokens: Those of them that were read from a provider's cache.
        written_tokens: Those of them that were written to one.
        hit_rate: Read tokens as a part of prompt tokens; null without any.
        expected_tokens: Tokens that planned calls should have read, by a model of the cache.
        missed_attempts: Attempts that read fewer.
        missed_tokens: Tokens that they did not read.
        missed_nanos: Known cost of that, in nano-dollars.
    """

    calls: int
    prompt_tokens: int
    read_tokens: int
    written_tokens: int
    hit_rate: float | None
    expected_tokens: int
    missed_attempts: int
    missed_tokens: int
    missed_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRateSeries:
    """Hit rates of one value over time; null where a bucket has no prompts."""

    value: str
    name: str
    is_others: bool
    sums: CacheSums
    hit_rates: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFloor:
    """The floor of an objective of caches; ``team`` and ``feature`` are ``*`` for all."""

    objective: str
    team: str
    feature: str
    floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MissReasonSums:
    """Misses for one reason.

    Attributes:
        reason: The reason, such as ``expired``.
        attempts: Attempts that missed for it.
        tokens: Tokens that they did not read.
        nanos: Known cost of that, in nano-dollars.
        fix: Advice in a sentence; "" for a reason of an older version.
        example: Id of the newest such call.
        team: Id of the team; "" where all are summed.
        feature: The feature; "" where all are summed, and for calls that name none.
    """

    reason: str
    attempts: int
    tokens: int
    nanos: int
    fix: str
    example: str
    team: str = ""
    team_name: str = ""
    feature: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureCache:
    """The cache of one feature, and how its prompts are planned."""

    team: str
    team_name: str
    feature: str
    mode: str
    sums: CacheSums


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureMarks:
    """Costs and earnings of the cache marks of one feature, since its first call.

    Attributes:
        family: Family of models; each has an account of its own.
        calls: Calls that were answered, with marks and without.
        staked_nanos: Sum that calls cost more than sent directly, for marks that were written.
        earned_nanos: Sum that calls cost less than sent directly, for marks that were read.
        lost_nanos: Loss that counts against what it may lose; half of it after a day.
    """

    team: str
    team_name: str
    feature: str
    family: str
    calls: int
    staked_nanos: int
    earned_nanos: int
    net_nanos: int
    lost_nanos: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMarks:
    """Costs and earnings of cache marks where writing them is paid for in advance.

    Attributes:
        staked_nanos: Sum of all features.
        earned_nanos: The same of what they earned back.
        lost_nanos: Losses that count against what features may lose.
        max_loss_nanos: Amount that a feature may lose; one prompt's surcharge where that is more.
        max_team_loss_nanos: Amount that all features of a team may lose in a day.
        features: The features that staked most, first.
    """

    staked_nanos: int
    earned_nanos: int
    net_nanos: int
    lost_nanos: int
    max_loss_nanos: int
    max_team_loss_nanos: int
    features: Sequence[FeatureMarks]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheHealthView:
    """Hit rates and misses of a period.

    Attributes:
        last: The last day, included.
        starts: The beginning of each bucket, in seconds since the epoch.
        end: End of the last one.
        hit_rates: Hit rate of each bucket, of all together.
        series: The values with most prompt tokens, and all others last.
        floors: Floors of objectives that bind calls of the viewer's teams.
        reasons: Reasons for misses, the dearest first; of whole days of UTC.
        feature_reasons: The same by feature.
        features: Features with their planning mode, those that missed most first.
        marks: Costs and earnings of cache marks, of all days.
    """

    first: date
    last: date
    tz: str
    by: CacheDimension
    unit: BucketUnit
    starts: Sequence[int]
    end: int
    total: CacheSums
    hit_rates: Sequence[float | None]
    series: Sequence[HitRateSeries]
    floors: Sequence[CacheFloor]
    reasons: Sequence[MissReasonSums]
    feature_reasons: Sequence[MissReasonSums]
    features: Sequence[FeatureCache]
    marks: CacheMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class MissEvidenceView:
    """Evidence for the miss of one call.

    Attributes:
        detail: The evidence in a sentence.
        fix: Advice in a sentence; "" for a reason of an older version.
        expected_tokens: Tokens that it should have read; null where unknown.
        read_tokens: Tokens that it read; null where unknown.
        missed_tokens: The difference, as it was found then.
        missed_nanos: Cost of that, in nano-dollars; null where unknown.
        hit_call_id: The last call before it of its feature and model that read from the cache;
            null where there was none, or its prompt is not kept.
        difference: First difference of the two prompts; null where prompts are not kept.
    """

    call_id: str
    attempt: int
    reason: str
    detail: str
    fix: str
    expected_tokens: int | None
    read_tokens: int | None
    missed_tokens: int | None
    missed_nanos: int | None
    hit_call_id: str | None
    difference: PromptDifference | None
    keeps_prompts: bool
