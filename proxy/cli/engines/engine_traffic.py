"""Prints the traffic of engines for ``thriftgate engine status``: reuse of prefixes, and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from proxy.cli.columns import COUNT, TableColumn, each_by, text_table
from proxy.cli.terminal import Terminal, empty_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.engines.state.traffic_file import (
        EngineTraffic,
        PrefixReuse,
        ReplicaTraffic,
        WarmingReport,
    )

_REUSE: Final = ("prompt tokens", "available", "captured", "delivered")
_NANOS_PER_DOLLAR: Final = 1_000_000_000
_LOAD: Final = ("in flight", "running", "waiting", "KV use", "KV format", "preempted")
_UNKNOWN: Final = "unknown"


def print_traffic(terminal: Terminal, gateways: Sequence[EngineTraffic], profile: str = "") -> None:
    """Print the reuse and the load that each gateway sees."""
    shown = False
    for gateway in gateways:
        replicas = [one for one in gateway.replicas if profile in {"", one.profile}]
        if replicas:
            shown = True
            terminal.say(f"Gateway of process {gateway.pid}, since it started:")
            _show_routes(terminal, gateway, replicas)
            for one in gateway.speculation:
                if one.kv_cache and profile in {"", one.profile}:
                    terminal.say(f"{one.profile}: {one.kv_cache}")
            warming = [one for one in gateway.warming if profile in {"", one.profile}]
            if warming:
                terminal.show(text_table(_WARMING, warming))
    if not shown:
        terminal.say("No gateway runs here with these engines, so reuse and load are not known.")


def _show_routes(
    terminal: Terminal, traffic: EngineTraffic, replicas: Sequence[ReplicaTraffic]
) -> None:
    """A line for each route, and one for each model over all its routes."""
    columns = ("route", "health", *_LOAD, *_REUSE, "cache known by")
    table = empty_table(*columns, right=(*_LOAD, *_REUSE))
    for replica in replicas:
        cells = (
            f"{replica.name}/{replica.model}",
            "healthy" if replica.is_healthy else replica.reason or "unhealthy",
            str(replica.calls_in_flight),
            _number(replica.running),
            _number(replica.waiting),
            _UNKNOWN if replica.kv_usage is None else f"{replica.kv_usage:.0%}",
            replica.kv_dtype or _UNKNOWN,
            _number(replica.preemptions),
            *_reuse_cells(replica.reuse),
            "its events" if replica.events else "a guess",
        )
        table.add_row(*map(Text, cells))
    for model in sorted({replica.model for replica in replicas} & traffic.models.keys()):
        blank = [""] * (1 + len(_LOAD))
        reuse = _reuse_cells(traffic.models[model])
        table.add_row(*map(Text, (f"all of {model}", *blank, *reuse, "")))
    terminal.show(table)


#: Of each profile and kind of prompt that was read ahead.
_WARMING: Final[tuple[TableColumn[WarmingReport], ...]] = (
    TableColumn("", "read ahead", of=lambda one: f"{one.profile}: {one.kind.replace('_', ' ')}"),
    TableColumn("prompts", "prompts", COUNT),
    TableColumn("computed_tokens", "tokens computed", COUNT),
    TableColumn("cost_nanos", "cost", each_by(lambda n: f"${n / _NANOS_PER_DOLLAR:.4f}")),
    TableColumn("used_calls", "calls that used it", COUNT),
    TableColumn("used_tokens", "tokens read", COUNT),
    TableColumn("saved_s", "prefill saved", each_by("{:.1f} s".format)),
)


def _reuse_cells(reuse: PrefixReuse) -> tuple[str, str, str, str]:
    if not reuse.prompt_tokens:
        return "0", "", "", ""
    parts = (reuse.available, reuse.captured, reuse.delivered)
    available, captured, delivered = (f"{part / reuse.prompt_tokens:.0%}" for part in parts)
    return f"{reuse.prompt_tokens:,}", available, captured, delivered


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}"
