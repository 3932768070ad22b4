"""``thriftgate engine costs``: what engines cost, how busy they were, and their price per token."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from proxy.cli.columns import COUNT, TableColumn, documents, each_by, text_table, usd
from proxy.cli.terminal import AsJson, Terminal
from proxy.records.amounts import money

if TYPE_CHECKING:
    from proxy.engines.profiles import EngineProfile
    from proxy.store.sql.ledger.engine_usage import UpstreamUsage
    from proxy.store.store import Store

_MILLION: Final = 1_000_000


class EngineBill(NamedTuple):
    """The bill of one engine over some time; money is None at an unknown price.

    Attributes:
        run_s: Seconds that its replicas ran, added up.
        use: Used part of their GPU time, 0 to 1.
        used_nanos: Cost of its calls.
        paid_nanos: Price of the time that they ran.
        accepted: Accepted part of the draft tokens; None without speculation.
    """

    engine: str
    calls: int
    tokens: int
    run_s: float
    use: float
    used_nanos: int | None
    paid_nanos: int | None
    accepted: float | None

    @property
    def idle_nanos(self) -> int | None:
        """Price of the time without a call; None where the price is unknown."""
        if self.paid_nanos is None or self.used_nanos is None:
            return None
        return max(self.paid_nanos - self.used_nanos, 0)


def engine_bill(
    profile: EngineProfile, usages: Iterable[UpstreamUsage], run_s: float
) -> EngineBill:
    """The bill of a profile's replicas."""
    replicas, gpus = list(usages), max(profile.gpus_per_replica, 1)
    price, drafted = profile.price_per_gpu_hour, sum(usage.draft_tokens for usage in replicas)
    accepted = sum(usage.accepted_tokens for usage in replicas)
    gpu_micros = sum(usage.gpu_micros for usage in replicas)
    return EngineBill(
        engine=profile.name,
        calls=sum(usage.calls for usage in replicas),
        tokens=sum(usage.prompt_tokens + usage.output_tokens for usage in replicas),
        run_s=run_s,
        use=gpu_micros / (gpus * run_s * _MILLION) if run_s else 0.0,
        used_nanos=None if price is None else sum(usage.cost_nanos or 0 for usage in replicas),
        paid_nanos=None if price is None else round(price * gpus * run_s / 3600),
        accepted=accepted / drafted if drafted else None,
    )


def engine_bills(
    profiles: Iterable[EngineProfile], opened: Store, since: float, now: float
) -> list[EngineBill]:
    """The bill of each profile between two moments, the later one being the present."""
    from proxy.catalog.engine_layer import replica_upstream

    bills = []
    for profile in profiles:
        names = [replica_upstream(profile.name, number) for number in range(profile.replica_count)]
        usages = opened.reports.upstream_usage(names, since)
        run_s = sum(opened.replica_time.run_seconds_until_now(name, since, now) for name in names)
        bills.append(engine_bill(profile, usages, run_s))
    return bills


def add_costs(
    commands: typer.Typer, terminal: Terminal, profiles: Callable[[], dict[str, EngineProfile]]
) -> None:
    """Add the command that shows what engines cost."""

    @commands.command("costs")
    def costs(
        *,
        hours: Annotated[int, typer.Option(min=1, max=24 * 366, help="How many hours.")] = 1,
        as_json: AsJson = False,
    ) -> None:
        """Show what each engine cost: used and idle GPU time, and the price per million tokens.

        Calls are those of the ledger that began in these hours; paid is the time in which gateways
        saw a replica start, serve or drain.
        """
        now = terminal.now()
        with terminal.store() as opened:
            bills = engine_bills(profiles().values(), opened, now - hours * 3600, now)
        if as_json:
            terminal.print_json({"hours": hours, "engines": documents(_COLUMNS, bills)})
        else:
            terminal.show(text_table(_COLUMNS, bills))


def _per_million(nanos: int | None, tokens: int) -> int | None:
    """Nano-dollars of a million tokens; None where nothing is known of it."""
    return None if nanos is None or not tokens else nanos * _MILLION // tokens


_USD: Final = each_by(lambda nanos: "?" if nanos is None else money(nanos), usd)
_PERCENT: Final = each_by(lambda part: "" if part is None else f"{part:.0%}")
_HOURS: Final = each_by(lambda seconds: f"{seconds / 3600:,.2f} h", lambda s: round(s, 3))
_COLUMNS: Final[tuple[TableColumn[EngineBill], ...]] = (
    TableColumn("engine", "engine"),
    TableColumn("calls", "calls", COUNT),
    TableColumn("tokens", "tokens", COUNT),
    TableColumn("run_seconds", "ran", _HOURS, lambda bill: bill.run_s),
    TableColumn("gpu_use", "GPU use", _PERCENT, lambda bill: bill.use),
    TableColumn("used_usd", "used", _USD, lambda bill: bill.used_nanos),
    TableColumn("idle_usd", "idle", _USD, lambda bill: bill.idle_nanos),
    TableColumn("paid_usd", form=_USD, of=lambda bill: bill.paid_nanos),
    TableColumn(
        "used_usd_per_million_tokens",
        "per 1M used",
        _USD,
        lambda bill: _per_million(bill.used_nanos, bill.tokens),
    ),
    TableColumn(
        "paid_usd_per_million_tokens",
        "per 1M paid",
        _USD,
        lambda bill: _per_million(bill.paid_nanos, bill.tokens),
    ),
    TableColumn("acceptance_rate", "accepted", _PERCENT, lambda bill: bill.accepted),
)
