"""Prints the traffic of engines for ``thriftgate engine status``: reuse of prefixes, and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

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
_WARMING: Final = (
    "prompts", "tokens computed", "cost", "calls that used it", "tokens read", "prefill saved",
)  # fmt: skip
_NANOS_PER_DOLLAR: Final = 1_000_000_000
_LOAD: Final = ("in flight", "running", "waiting", "KV use", "KV format", "preempted")
_UNKNOWN: Final = "unknown"


def print_traffic(terminal: Terminal, found: Sequence[EngineTraffic], profile: str = "") -> None:
    """Print the reuse and the load that each gateway sees.

    Args:
        terminal: Where it is printed.
        found: The reports of gateways.
        profile: Print this profile's alone; "" for all.
    """
    shown = False
    for each in found:
        replicas = [one for one in each.replicas if profile in {"", one.profile}]
        if replicas:
            shown = True
            terminal.say(f"Gateway of process {each.pid}, since it started:")
            _show_routes(terminal, each, replicas)
            for one in each.speculation:
                if one.kv_cache and profile in {"", one.profile}:
                    terminal.say(f"{one.profile}: {one.kv_cache}")
            _show_warming(terminal, [one for one in each.warming if profile in {"", one.profile}])
    if not shown:
        terminal.say("No gateway runs here with these engines, so reuse and load are not known.")


def _show_routes(
    terminal: Terminal, traffic: EngineTraffic, replicas: Sequence[ReplicaTraffic]
) -> None:
    """A line for each route, and one for each model over all its routes."""
    columns = ("route", "health", *_LOAD, *_REUSE, "cache known by")
    table = empty_table(*columns, right=(*_LOAD, *_REUSE))
    for each in replicas:
        cells = (
            f"{each.name}/{each.model}",
            "healthy" if each.is_healthy else each.reason or "unhealthy",
            str(each.calls_in_flight),
            _number(each.running),
            _number(each.waiting),
            _UNKNOWN if each.kv_usage is None else f"{each.kv_usage:.0%}",
            each.kv_dtype or _UNKNOWN,
            _number(each.preemptions),
            *_reuse_cells(each.reuse),
            "its events" if each.events else "a guess",
        )
        table.add_row(*map(Text, cells))
    for model in sorted({each.model for each in replicas} & traffic.models.keys()):
        blank = [""] * (1 + len(_LOAD))
        reuse = _reuse_cells(traffic.models[model])
        table.add_row(*map(Text, (f"all of {model}", *blank, *reuse, "")))
    terminal.show(table)


def _show_warming(terminal: Terminal, found: Sequence[WarmingReport]) -> None:
    """A line for each profile and kind of prompt that was read ahead."""
    if not found:
        return
    columns = ("read ahead", *_WARMING)
    table = empty_table(*columns, right=_WARMING)
    for each in found:
        cells = (
            f"{each.profile}: {each.kind.replace('_', ' ')}",
            f"{each.prompts:,}",
            f"{each.computed_tokens:,}",
            f"${each.cost_nanos / _NANOS_PER_DOLLAR:.4f}",
            f"{each.used_calls:,}",
            f"{each.used_tokens:,}",
            f"{each.saved_s:.1f} s",
        )
        table.add_row(*map(Text, cells))
    terminal.show(table)


def _reuse_cells(reuse: PrefixReuse) -> tuple[str, str, str, str]:
    """Tokens, and the parts of them."""
    if not reuse.prompt_tokens:
        return "0", "", "", ""
    parts = (reuse.available, reuse.captured, reuse.delivered)
    available, captured, delivered = (f"{each / reuse.prompt_tokens:.0%}" for each in parts)
    return f"{reuse.prompt_tokens:,}", available, captured, delivered


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0f}"
