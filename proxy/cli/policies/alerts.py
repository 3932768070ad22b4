"""``thriftgate alerts``: shows open alerts and notifications, and tests sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from proxy.cli.terminal import Terminal, empty_table, format_time

if TYPE_CHECKING:
    from proxy.services.alerts.configured_sinks import ConfiguredSink
    from proxy.settings import Settings
    from proxy.store.sql.outbox import OutboxMessage
    from slo.policies.file import Policies
    from slo.policies.sinks import Sink

_MAX_ALERTS: Final = 50
#: Open alerts that are looked at, the newest.
_MAX_READ_ALERTS: Final = 1_000
_MAX_NOTIFICATIONS: Final = 20


def alerts(
    terminal: Terminal,
    settings: Callable[[], Settings],
    policies: Callable[[Settings], Policies],
) -> typer.Typer:
    """The group of commands; by itself it shows alerts."""
    commands = typer.Typer(help="Show open alerts, and who was notified.")

    @commands.callback(invoke_without_command=True)
    def show_alerts(context: typer.Context) -> None:
        """Show open alerts, and the latest notifications of sinks."""
        if context.invoked_subcommand is None:
            _show(terminal)

    @commands.command("test")
    def test(
        sink: Annotated[str, typer.Argument(help="The sink's name in the policies file.")],
    ) -> None:
        """Send a sink a test alert that counts as open, and say if it took it, or why it did not.

        It is marked as a test, and no alert for its end follows.
        """
        sinks = policies(settings()).sinks
        from proxy.services.alerts.configured_sinks import send_test_alert

        outlet = _find_sink(terminal, sinks, sink)
        origin = "a person ran `thriftgate alerts test`"
        failure = asyncio.run(send_test_alert(outlet, origin, terminal.now()))
        if failure is not None:
            detail = f" It was said: {failure.detail}" if failure.detail else ""
            terminal.fail(f"The sink {sink} did not take the message: {failure.reason}.{detail}")
        terminal.say(f"The sink {sink} took the message: an open alert that begins with TEST.")

    return commands


def _show(terminal: Terminal) -> None:
    from slo.alert import urgency_key

    with terminal.store() as store:
        open_alerts = store.outbox.open_alerts(_MAX_READ_ALERTS)
        letters = store.outbox.last_messages(_MAX_NOTIFICATIONS)
    if open_alerts:
        table = empty_table("severity", "since", "alert", "id")
        open_alerts.sort(key=lambda alert: urgency_key(alert.severity, alert.began))
        for alert in open_alerts[:_MAX_ALERTS]:
            # Ids of one budget's alerts begin alike, so their ends are shown.
            row = (alert.severity.value, format_time(alert.began), alert.title, alert.id[-8:])
            table.add_row(*map(Text, row))
        terminal.show(table)
        if len(open_alerts) > _MAX_ALERTS:
            terminal.say(
                f"{len(open_alerts) - _MAX_ALERTS:,} more are open, none of them more urgent."
            )
    else:
        terminal.say("Nothing is wrong.")
    if letters:
        terminal.say("", "Sent lately:")
        table = empty_table("sink", "when", "as", "alert")
        for letter in letters:
            table.add_row(*map(Text, _delivery_row(letter)))
        terminal.show(table)


def _delivery_row(letter: OutboxMessage) -> tuple[str, ...]:
    """The row of a notification, with the reason where the sink refused it."""
    title = letter.alert.title
    if letter.why:
        state = "is tried again" if letter.due is not None else "was given up"
        return letter.sink, "not yet", f"{letter.phase}, {state}: {letter.why}", title
    return letter.sink, format_time(letter.sent or 0.0), letter.phase, title


def _find_sink(terminal: Terminal, sinks: tuple[Sink, ...], name: str) -> ConfiguredSink:
    matches = [sink for sink in sinks if sink.name == name]
    if not matches:
        names = ", ".join(sink.name for sink in sinks) or "none"
        terminal.fail(f"There is no sink {name} in the policies file; there are: {names}.")
    from proxy.services.alerts.configured_sinks import configured_sinks, environment_variables
    from proxy.settings import upstream_keys

    configured, lacking = configured_sinks(matches, upstream_keys(environment_variables(matches)))
    if not configured:
        terminal.fail(lacking[0])
    return configured[0]
