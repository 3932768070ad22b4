"""The port through which pages and reports read the ledger, and the rows it answers with."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal, NewType, Protocol, get_args
from zoneinfo import ZoneInfo

from slo.usage import TAG_PREFIX, Usage

TagPart = NewType("TagPart", str)
"""A key of callers' metadata as a dimension, such as ``tag:customer``."""
FixedPart = Literal["team", "feature", "model", "requested", "route", "upstream", "key", "user"]
Part = FixedPart | TagPart
"""Dimensions of a report; a key by its id, an end user by its keyed hash.

``model`` is the one that answered, or was tried; ``requested`` the one that the caller asked for.
"""

BY_TEAM: tuple[Part, ...] = ("team",)
#: Dimensions of which an attempt may be no call, because another value answered.
ATTEMPTED_PARTS: Final = frozenset({"model", "route", "upstream", "provider"})
FIXED_PARTS: Final[tuple[FixedPart, ...]] = get_args(FixedPart)
#: Rows of a report that is split by user or tag.
MAX_USERS = 1_000
#: Calls of a period, the newest, whose times percentiles are computed of.
MAX_TIMED_CALLS = 200_000


def tag_part(key: str) -> TagPart:
    """The dimension of a tag's key."""
    return TagPart(TAG_PREFIX + key)


def is_tag(part: str) -> bool:
    """True if a dimension is a tag."""
    return part.startswith(TAG_PREFIX)


def reads_receipts(parts: Iterable[str]) -> bool:
    """True if rollups do not know all of these parts: users and tags are as many as calls."""
    return any(part == "user" or is_tag(part) for part in parts)


def ordered_parts(parts: Collection[str]) -> tuple[Part, ...]:
    """The parts in the order in which rows name them, each once; tags come last."""
    tags = sorted({TagPart(part) for part in parts if is_tag(part)})
    return (*(part for part in FIXED_PARTS if part in parts), *tags)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPeriod:
    """Whole days in a time zone: from the start of ``first`` to the start of ``end``.

    A day is as long as it is there, 23 and 25 hours included, so the days of a period add up to
    the period.

    Attributes:
        end: The day after the last.
        zone: An IANA name, such as ``Europe/Berlin``.

    Raises:
        ValueError: It ends before it begins, or there is no such zone.
    """

    first: date
    end: date
    zone: str

    def __post_init__(self) -> None:
        if self.end < self.first:
            raise ValueError(f"a period cannot end on {self.end}, before {self.first}")
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError) as error:
            raise ValueError(f"no time zone is called {self.zone!r}") from error

    @property
    def bounds(self) -> tuple[int, int]:
        """Its half-open range in seconds since the epoch."""
        return self._start(self.first), self._start(self.end)

    @property
    def days(self) -> tuple["ReportPeriod", ...]:
        """Its days, first to last, one period each."""
        return tuple(
            ReportPeriod(first=day, end=day + timedelta(days=1), zone=self.zone)
            for day in (self.first + timedelta(days=n) for n in range((self.end - self.first).days))
        )

    def _start(self, day: date) -> int:
        """Midnight; where a clock change skips it, the moment the change is made."""
        midnight = datetime.combine(day, time(), ZoneInfo(self.zone))
        return int(midnight.astimezone(UTC).timestamp())


def latest_days(now: float, days: int, zone: str = "UTC") -> ReportPeriod:
    """So many days of a zone, today included.

    Raises:
        ValueError, KeyError, OSError: There is no such zone.
    """
    end = datetime.fromtimestamp(now, ZoneInfo(zone)).date() + timedelta(days=1)
    return ReportPeriod(first=end - timedelta(days=days), end=end, zone=zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendFilter:
    """The calls that a report counts; with no fields, all.

    Attributes:
        teams: Ids of the teams that the viewer may see; None for all.
        values: For each part that is filtered by, the values that count.
    """

    teams: frozenset[str] | None = None
    values: Mapping[Part, frozenset[str]] = field(default_factory=dict)

    @property
    def counted_teams(self) -> frozenset[str] | None:
        """Ids of the teams whose calls count; None for all."""
        named = self.values.get("team")
        if self.teams is None or named is None:
            return self.teams if named is None else named
        return self.teams & named


#: Counts every call.
ALL_CALLS = SpendFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """Usage and cost of calls, summed.

    Attributes:
        team: The team's id; None where the report is not split by team. The same holds for
            ``feature``, ``model``, ``requested``, ``route``, ``upstream``, ``key`` and ``user``.
        tags: The values of those tags that the report is split by; "" for none.
        calls: Calls, however many attempts each took.
        attempts: Attempts to answer them.
        answered: Calls that had a first content byte: neither failed before it nor refused.
        estimated: Attempts whose usage was counted here.
        unpriced: Attempts that were answered or used tokens, at no known price; the costs leave
            them out.
        usage: Tokens of all attempts.
        list_nanos: Cost at published prices in 1e-9 US dollars; None where no price was known.
        cost_nanos: The same after discounts.
        ttft: Mean seconds to the first content byte; None where there was none.
        duration: Mean seconds of a call; None where there was none.
        idle_nanos: The part of the costs that no call caused: idle time of replicas.
    """

    team: str | None = None
    feature: str | None = None
    model: str | None = None
    requested: str | None = None
    route: str | None = None
    upstream: str | None = None
    key: str | None = None
    user: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    calls: int
    attempts: int
    answered: int
    errors: int
    estimated: int
    unpriced: int
    usage: Usage
    list_nanos: int | None
    cost_nanos: int | None
    ttft: float | None
    duration: float | None
    idle_nanos: int = 0

    def values(self, parts: Collection[Part]) -> tuple[str, ...]:
        """The values of these parts in the order of all parts; "" for one it is not split by."""
        return tuple(self.value(part) for part in ordered_parts(parts))

    def value(self, part: Part) -> str:
        """The value of a part; "" for none."""
        return self.tags.get(part, "") if is_tag(part) else getattr(self, part) or ""

    @property
    def nanos_per_1k_calls(self) -> int | None:
        """The cost of all attempts of 1,000 answered calls; None without any, or unknown.

        Idle time is left out: it is no call's.
        """
        return self._nanos_per_1k(self.answered)

    @property
    def nanos_per_1k_attempts(self) -> int | None:
        """The same of 1,000 attempts, without the last ones of calls that got no answer.

        It is for ``ATTEMPTED_PARTS``.
        """
        return self._nanos_per_1k(self.attempts - self.calls + self.answered)

    def _nanos_per_1k(self, count: int) -> int | None:
        if self.cost_nanos is None or count <= 0:
            return None
        nanos = self.cost_nanos - self.idle_nanos
        return (2_000 * nanos + count) // (2 * count)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds that so many of 100 calls stay at or below; None where there were no calls."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of calls.

    Attributes:
        ttft: To the first content byte, of calls that had one.
    """

    ttft: Percentiles = Percentiles()
    duration: Percentiles = Percentiles()
    calls: int = 0


class Reports(Protocol):
    """Cost reports, answered from rollups however large the ledger is, but for users and tags."""

    def spend(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM, only: SpendFilter = ALL_CALLS
    ) -> Sequence[Spend]:
        """One row for each combination of parts that made a call, in their order.

        With no parts at all it is one row, or none where there were no calls. Split by user or
        tag, it is read from receipts, takes as long as there are many, and has the dearest rows,
        in that order, as many as ``MAX_USERS``.
        """
        ...

    def times(
        self, period: ReportPeriod, by: Collection[Part] = BY_TEAM
    ) -> Mapping[tuple[str, ...], Times]:
        """Durations of calls that went to an upstream, by the values of the parts, in order.

        Of all calls together by (). It is read from receipts: of the newest ``MAX_TIMED_CALLS``
        calls of the period.
        """
        ...
