"""Models, prices and aliases that people set on pages: composed, checked, and tried."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from msgspec.structs import asdict

from proxy.catalog.catalog import Catalog
from proxy.catalog.model_aliases import EVERY_TEAM
from proxy.catalog.page_entries import (
    model_text,
    plain_value,
    present_price,
    stated_models,
    with_price,
)
from proxy.catalog.prices import RATES
from proxy.configuration import CatalogSource
from proxy.errors import CallerError
from proxy.reloading import Reloader
from proxy.services.catalog_overlay import CATALOG_KINDS, catalog_text, stated_fields
from proxy.store.sql.settings.stored_policies import StoredPolicy
from proxy.store.sql.views.setup.price_trials import PriceQuestion
from proxy.store.sql.views.setup.requested_models import RequestedModel
from slo.budgets.budget import EVERY
from slo.objectives.toml_writer import dollars_text
from slo.price import TokenRates
from slo.toml.nodes import parse_toml
from slo.toml.values import toml_value
from slo.trials.price_trial import RoutePrices

#: Changes of models that a preview names; more are counted.
_MAX_MOVES: Final = 5
_NAME: Final = re.compile(r"[A-Za-z0-9][!-~]{0,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A checked entry of the catalog.

    Attributes:
        catalog: The catalog with it.
    """

    name: str
    team: str
    catalog: Catalog


@dataclass(eq=False)
class CatalogEntries:
    """Entries of the catalog over the operator's file, which wins."""

    _reloader: Reloader

    def compose(
        self, kind: str, fields: Mapping[str, Any], earlier: StoredPolicy | None, now: float
    ) -> Mapping[str, Any]:
        """The fields to keep of those of a form; prices and other fields stay beside each other.

        Reads files, so it belongs in a thread.

        Raises:
            CallerError: The model has no prices that could be set here.
        """
        if kind == "model_aliases":
            missing = [key for key in ("alias", "model") if not fields.get(key)]
            if missing:
                raise CallerError(f"{' and '.join(missing)}: missing.", code="invalid_policy")
            team = fields.get("team", EVERY)
            return {**fields, "team": team, "name": entry_name(kind, fields)}
        if not fields.get("name"):
            raise CallerError("name is missing; write a model's name.", code="invalid_policy")
        if not _NAME.fullmatch(fields["name"]):
            raise CallerError(
                "name: write at most 256 ASCII characters without spaces, a letter or digit first.",
                code="invalid_policy",
                param="name",
            )
        entry = {} if earlier is None else dict(earlier.fields)
        if kind == "models":
            return {**fields, **({"price": entry["price"]} if "price" in entry else {})}
        return self._with_price(fields, entry, datetime.fromtimestamp(now, UTC).date())

    def _with_price(
        self, fields: Mapping[str, Any], entry: Mapping[str, Any], today: date
    ) -> Mapping[str, Any]:
        change = {key: value for key, value in fields.items() if key != "name"}
        if "since" in change:
            change["since"] = _iso_day(change["since"])
        base = self.base_price(fields, entry)
        moves = not change.keys().isdisjoint(RATES)
        if moves and "long" in present_price(base, today) and "long" not in change:
            raise CallerError(
                f"Rates of long prompts of {fields['name']} differ; restate long with the others.",
                code="invalid_policy",
                param="long",
            )
        return with_price({"name": fields["name"], **entry}, base, change, today)

    def base_price(self, fields: Mapping[str, Any], entry: Mapping[str, Any]) -> Mapping[str, Any]:
        """The prices of a model until now; {} where none are known. Reads files."""
        if isinstance(entry.get("price"), Mapping):
            return dict(entry["price"])
        texts = [model_text(entry)] if entry else []
        texts += filter(None, [self._source.user])
        model = stated_models(self._source.shipped, texts).get(fields["name"], {})
        if any("price" in route for route in model.get("routes", ())):
            raise CallerError(
                f"The routes of {fields['name']} have prices of their own; change them in the file"
                " that THRIFTGATE_CATALOG names.",
                code="invalid_policy",
            )
        price = model.get("price")
        return dict(price) if isinstance(price, Mapping) else {}

    async def check(
        self, kind: str, fields: Mapping[str, Any], stored: Sequence[StoredPolicy]
    ) -> CatalogEntry:
        """The entry, if the catalog holds with it and the others that are in force.

        Raises:
            InvalidFile: It breaks rules.
            CallerError: The operator's file says what it says.
        """
        await asyncio.to_thread(self._check_file, kind, fields)
        problems = self._reloader.snapshot.page_problems
        left_out = {place for place, problem in problems.items() if problem.is_left_out}
        left_out.add((kind, fields["name"]))
        others = [one for one in stored if (one.kind, one.name) not in left_out]
        entry = StoredPolicy(
            kind=kind, name=fields["name"], fields=fields, changed_by="", changed_at=0.0
        )
        entries = [*(one for one in others if one.kind in CATALOG_KINDS), entry]
        catalog = await asyncio.to_thread(self._source.load, catalog_text(entries))
        return CatalogEntry(name=fields["name"], team=fields.get("team", EVERY), catalog=catalog)

    def is_in_force(self, stored: StoredPolicy) -> bool:
        """True if the catalog in force has the entry, unless a problem leaves it out."""
        catalog, fields = self._reloader.snapshot.catalog, stored.fields
        if stored.kind == "model_aliases":
            aliases = catalog.team_aliases.get(fields["team"])
            return aliases is not None and aliases.targets.get(fields["alias"]) == fields["model"]
        return stored.name in catalog.models

    def price_question(self, entry: CatalogEntry, since: str, now: float) -> PriceQuestion:
        """The prices of a model's routes before and with an entry."""
        before = self._reloader.snapshot.catalog.models.get(entry.name)
        tariffs = {} if before is None else {route.name: route.tariff for route in before.routes}
        return PriceQuestion(
            now=now,
            prices={
                route.name: RoutePrices(
                    before=tariffs.get(route.name),
                    after=route.tariff,
                    region=route.upstream.region,
                )
                for route in entry.catalog.models[entry.name].routes
            },
            since=_start(since),
        )

    def check_rates(self, question: PriceQuestion) -> None:
        """Checks that no rate is lost that was known; else raises CallerError."""
        start = max(question.now, question.since)
        lost = dict.fromkeys(
            rate for prices in question.prices.values() for rate in prices.lost_rates(start)
        )
        if lost:
            raise CallerError(
                f"Calls would have no known cost any more: state {', '.join(lost)}, too.",
                code="invalid_policy",
            )

    def tier_problems(self, question: PriceQuestion) -> Sequence[str]:
        """A sentence on service tiers whose price is unknown from then on, where there are any."""
        start = max(question.now, question.since)
        tiers = dict.fromkeys(
            tier for prices in question.prices.values() for tier in prices.lost_tiers(start)
        )
        names = " or ".join(tiers)
        why = "it has rates of its own, which only the catalog file can restate"
        return [f"Calls at the service tier {names} will lose their price: {why}."] if tiers else []

    def alias_problems(
        self, entry: CatalogEntry, requested: Sequence[RequestedModel] | None
    ) -> Sequence[str]:
        """Sentences on what an alias changes: others that end, and calls by another model.

        Args:
            requested: Calls of yesterday; None while the ledger is away.
        """
        before, after = self._reloader.snapshot.catalog, entry.catalog
        shared = before.team_aliases.get(EVERY_TEAM)
        problems = []
        if shared and entry.team != EVERY_TEAM and entry.team not in before.team_aliases:
            problems.append(
                "A team with aliases of its own has none of those for every team. These end for"
                f" {entry.team}, unless you set them for it, too: {', '.join(shared.targets)}."
            )
        if requested is None:
            return [*problems, "Yesterday's calls cannot be counted just now."]
        moves = list(_model_changes(before, after, requested))
        total = f"{sum(calls for calls, _ in moves):,}"
        listed = "; ".join(f"{calls:,} of {words}" for calls, words in moves[:_MAX_MOVES])
        most = ", most of them " if len(moves) > _MAX_MOVES else ": "
        problems.append(
            f"Yesterday's calls that another model would have answered: {total}"
            f"{most + listed if listed else ''}."
        )
        return problems

    def present_texts(self, name: str, now: float) -> Mapping[str, str]:
        """The texts of the form of prices that stand for those of now."""
        model = self._reloader.snapshot.catalog.models.get(name)
        tariffs = () if model is None else (route.tariff for route in model.routes)
        tariff = next(filter(None, tariffs), None)
        period = None if tariff is None else tariff.period(now)
        if period is None:
            return {"name": name}
        sheet = period.sheets[""]
        steps = [{"above": step.above, **_rate_texts(step.rates)} for step in sheet.steps]
        long = {"long": toml_value(steps)} if steps else {}
        return {"name": name, **_rate_texts(sheet.rates), **long}

    def _check_file(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Checks that the operator's file does not say the same; else raises CallerError."""
        file = plain_value(parse_toml(self._source.user or "", self._source.file))
        stated = stated_fields(file, kind, fields)
        if stated:
            raise CallerError(
                f"The catalog file says {', '.join(sorted(stated))} of {fields['name']}; change it"
                " there.",
                code="policy_in_file",
                status=409,
            )

    @property
    def _source(self) -> CatalogSource:
        source = self._reloader.snapshot.source
        assert source is not None  # noqa: S101 - a gateway reads its catalog from files
        return source


def entry_name(kind: str, fields: Mapping[str, Any]) -> str:
    """The name by which the fields of a form are stored; "" where they lack it."""
    if kind == "model_aliases":
        return f"{fields.get('alias', '')} of {fields.get('team', EVERY)}"
    return str(fields.get("name", ""))


def _iso_day(text: str) -> str:
    """A day as 2027-01-01, which sorts by time; raises CallerError for what is none."""
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise CallerError(
            "since: write a day, such as 2027-01-01.", code="invalid_policy", param="since"
        ) from None


def _model_changes(
    before: Catalog, after: Catalog, requested: Iterable[RequestedModel]
) -> Iterator[tuple[int, str]]:
    """The calls that another model answers after a change of aliases, and which, in words."""
    for one in requested:
        targets = [
            catalog.for_team(one.team).aliases.target(one.model) or one.model
            for catalog in (before, after)
        ]
        if targets[0] != targets[1]:
            yield one.calls, f"{one.model} by {targets[1]} instead of {targets[0]}"


def _rate_texts(rates: TokenRates) -> dict[str, str]:
    nanos_by_rate = asdict(rates)
    return {rate: dollars_text(nanos) for rate, nanos in nanos_by_rate.items() if nanos is not None}


def _start(day: str) -> float:
    """Midnight at which a day began, in seconds since the epoch; -inf for no day."""
    if not day:
        return float("-inf")
    return (date.fromisoformat(day) - date(1970, 1, 1)).days * 86_400.0
