"""Queries of resources: the period they are about, filters, and answers of the store."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import Response

from dashboards.access import Viewer
from dashboards.report_periods import BucketUnit, TimeBuckets, time_buckets
from dashboards.reports import Part, ReportPeriod, SpendFilter, TagPart, tag_part
from dashboards.views.costs import NO_VALUE
from proxy.errors import CallerError
from slo.usage import TAG_KEY, TAG_PREFIX

_USUAL_DAYS: Final = 30
_MAX_DAYS: Final = 3_700


OptionalText = Annotated[str, Field(max_length=1_000)] | None
OptionalTag = Annotated[
    Annotated[str, Field(max_length=200, pattern=f"^(?:{TAG_KEY.pattern}):")] | None,
    Field(description="A tag's key and value, `customer:acme`; `customer:(none)`: without it."),
]


TagDimension = Annotated[TagPart, Field(pattern=f"^{TAG_PREFIX}{TAG_KEY.pattern}$")]


class PeriodQuery(BaseModel):
    """Days of a time zone; the last thirty where none are named."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    first: date | None = Field(None, alias="from", description="The first day, `2026-11-01`.")
    last: date | None = Field(None, alias="to", description="The last day, included; today.")
    tz: str = Field("UTC", max_length=100, description="IANA time zone of the days.")

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: object) -> object:
        """A field that a form leaves empty asks for nothing."""
        if not isinstance(values, Mapping):
            return values
        return {name: value for name, value in values.items() if value != ""}

    def period(self, now: float) -> ReportPeriod:
        """The period that is asked for.

        Args:
            now: Seconds since the epoch.

        Raises:
            CallerError: It ends before it begins, is too long, or there is no such zone.
        """
        today = local_day(now, self.tz)
        last = self.last or max(today, self.first or today)
        first = self.first or last - timedelta(days=_USUAL_DAYS - 1)
        if first > last:
            raise CallerError(
                f"from={first} is after to={last}; swap them.", code="invalid_period", param="from"
            )
        if (last - first).days >= _MAX_DAYS or first.year < 2000 or last.year > 2999:
            raise CallerError(
                f"A period has at most {_MAX_DAYS} days between the years 2000 and 2999; ask for"
                " less.",
                code="invalid_period",
                param="from",
            )
        return ReportPeriod(first=first, end=last + timedelta(days=1), zone=self.tz)


class CallQuery(PeriodQuery):
    """Values that calls are filtered by; ``(none)`` is the value of calls that name none."""

    team: OptionalText = Field(None, description="Id of a team.")
    feature: OptionalText = None
    model: OptionalText = Field(None, description="The model that answered.")
    route: OptionalText = None

    def spend_filter(self, viewer: Viewer, providers: Mapping[str, str]) -> SpendFilter:
        """The calls that count: those of teams that a viewer may see, with these values.

        Args:
            viewer: The person who asks.
            providers: The provider of each upstream.
        """
        values: dict[Part, frozenset[str]] = {}
        parts: tuple[Part, ...] = ("team", "feature", "model", "key", "user", "route")
        for part in parts:
            if (value := getattr(self, part, None)) is not None:
                values[part] = frozenset({"" if value == NO_VALUE else value})
        provider = getattr(self, "provider", None)
        if provider is not None:
            upstreams = {provider: "", **providers}
            of_it = (name for name, whose in upstreams.items() if (whose or name) == provider)
            values["upstream"] = frozenset(of_it)
        if (upstream := getattr(self, "upstream", None)) is not None:
            values["upstream"] = values.get("upstream", frozenset({upstream})) & {upstream}
        if (tag := getattr(self, "tag", None)) is not None:
            key, _, value = tag.partition(":")
            values[tag_part(key)] = frozenset({"" if value == NO_VALUE else value})
        return SpendFilter(teams=viewer.teams, values=values)


class PlaceQuery(CallQuery):
    """The same, and providers and upstreams."""

    provider: OptionalText = None
    upstream: OptionalText = None

    @property
    def filters(self) -> dict[str, str]:
        """The values that are filtered by, by their dimension."""
        period = set(PeriodQuery.model_fields)
        named = set(FilterQuery.model_fields) - period
        return self.model_dump(include=named, exclude_none=True)


class FilterQuery(PlaceQuery):
    """The same, and keys, end users and tags."""

    key: OptionalText = Field(None, description="Id of a key.")
    user: OptionalText = Field(None, description="Keyed hash of an end user.")
    tag: OptionalTag = None


def buckets_of(period: ReportPeriod, unit: BucketUnit | None) -> TimeBuckets:
    """The buckets of a period.

    Raises:
        CallerError: It is too long for the unit.
    """
    try:
        return time_buckets(period, unit)
    except ValueError as error:
        raise CallerError(f"{error}.", code="invalid_period", param="unit") from None


def local_day(now: float, zone: str) -> date:
    """The day in a time zone.

    Raises:
        CallerError: There is no such zone.
    """
    try:
        return datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo(zone)).date()
    except (KeyError, ValueError, OSError):
        raise CallerError(
            f"tz={zone[:100]}: there is no such time zone; one is Europe/Berlin.",
            code="invalid_time_zone",
            param="tz",
        ) from None


def json_response(body: bytes) -> Response:
    """A response with a body that is JSON already."""
    return Response(body, media_type="application/json")
