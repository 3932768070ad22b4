"""``thriftgate objectives pin``: sets an objective's fallback level by hand, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table
from slo.alert import format_time
from slo.duration import parse_duration
from slo.objectives.objective import request_kind_text

if TYPE_CHECKING:
    from proxy.settings import Settings
    from proxy.store.sql.settings.pins import PinRow
    from slo.objectives.objective import Objective
    from slo.policies.file import Policies

_MAX_PIN_S: Final = 30 * 86_400.0
_MAX_REASON_CHARS: Final = 200
#: Pins that are shown of the past.
_MAX_LISTED: Final = 20

_Name = Annotated[str, typer.Argument(help="The objective.")]
_By = Annotated[str, typer.Option(envvar="USER", help="Who sets it.")]


def add(
    commands: typer.Typer,
    terminal: Terminal,
    settings: Callable[[], Settings],
    policies: Callable[[Settings], Policies],
) -> None:
    """Add the commands about pins to those about objectives."""
    _add_pin_list(commands, terminal)

    @commands.command("pin")
    def pin(
        name: _Name,
        level: Annotated[
            str,
            typer.Argument(help="Fallback level: 0 for what calls ask for, 1 and on, or its name."),
        ],
        span: Annotated[str, typer.Option("--for", help="How long, such as 30m or 4h.")] = "1h",
        why: Annotated[str, typer.Option(help="Why, for others to read.")] = "",
        by: _By = "",
    ) -> None:
        """Send new conversations to one fallback level; gateways follow within seconds."""
        objective = _find_objective(terminal, policies(settings()), name)
        number = _level_number(terminal, objective, level)
        lasts = _span(terminal, span)
        now = terminal.now()
        with terminal.store() as store:
            from proxy.store.sql.settings.pins import PinRow

            store.pins.set(
                PinRow(
                    objective=name,
                    level=number,
                    until=now + lasts,
                    why=why[:_MAX_REASON_CHARS],
                    made=now,
                    who=by[:_MAX_REASON_CHARS],
                )
            )
        whose = f", {only}," if (only := request_kind_text(objective.calls)) else ""
        where = f"fallback level {number} ({_level_names(objective)[number]})"
        terminal.say(f"{name} is pinned to {where}{whose} until {format_time(now + lasts)}.")

    @commands.command("release")
    def release(name: _Name, *, by: _By = "") -> None:
        """Release a pin: the objective returns to its former level and follows measurements."""
        with terminal.store() as store:
            was = store.pins.release(name, terminal.now(), by)
        if not was:
            terminal.fail(f"{name} is not pinned.")
        terminal.say(f"{name} follows measurements again.")


def _add_pin_list(commands: typer.Typer, terminal: Terminal) -> None:
    @commands.command("pins")
    def list_pins(
        *,
        every: Annotated[
            bool, typer.Option("--all", help="The last 20, also those that ended.")
        ] = False,
    ) -> None:
        """List current pins, and who set them."""
        with terminal.store() as store:
            current = store.pins.current_pins(terminal.now()).values()
            pins = store.pins.last_pins(_MAX_LISTED) if every else list(current)
        if pins:
            _show(terminal, pins)
        else:
            terminal.say("Nothing was pinned." if every else "Nothing is pinned.")


def _show(terminal: Terminal, pins: Iterable[PinRow]) -> None:
    table = empty_table("objective", "level", "until", "set", "by", "why", right=("level",))
    for pin in pins:
        what = (pin.objective, str(pin.level), format_time(pin.until), format_time(pin.made))
        table.add_row(*map(Text, (*what, pin.who or "?", pin.why)))
    terminal.show(table)


def _find_objective(terminal: Terminal, promised: Policies, name: str) -> Objective:
    for objective in promised.objectives:
        if objective.name == name:
            return objective
    names = ", ".join(objective.name for objective in promised.objectives) or "none"
    return terminal.fail(f"There is no objective {name}. Known are: {names}.")


def _level_number(terminal: Terminal, objective: Objective, level: str) -> int:
    """The number of a fallback level that is given by its number or its name."""
    every = _level_names(objective)
    numbers = {str(n): n for n in range(len(every))}
    names = {name: n for n, name in enumerate(objective.ladder, start=1)}
    if (number := (names | numbers).get(level)) is not None:
        return number
    levels = ", ".join(f"{n} ({what})" for n, what in enumerate(every))
    return terminal.fail(
        f"{objective.name} has no fallback level {level}. Its levels are: {levels}."
    )


def _level_names(objective: Objective) -> tuple[str, ...]:
    return ("what calls ask for", *objective.ladder)


def _span(terminal: Terminal, text: str) -> float:
    lasts = parse_duration(text)
    if lasts is None or not 0 < lasts <= _MAX_PIN_S:
        return terminal.fail(f"--for {text}: write a time up to 30 days, such as 30m, 4h or 2d.")
    return lasts
