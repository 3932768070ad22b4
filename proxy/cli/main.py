"""The command line: its commands by name; the modules of a command are imported when it runs.

``--version`` and ``--help`` import none of them, so they answer at once.
"""

import gc
import logging
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

_HELP: Final = (
    "A gateway in front of language models. Settings are THRIFTGATE_… environment variables."
)


class _Entry(NamedTuple):
    """A command of the table.

    Attributes:
        summary: The first paragraph of its own help.
        place: ``module:function``; the function is the command, or makes it or its group.
        needs: Members of ``proxy.cli.session`` that a function takes to make it.
    """

    summary: str
    place: str
    needs: tuple[str, ...] = ()

    def add_to(self, line: typer.Typer, name: str) -> None:
        """Import the command, and add it to a command line."""
        module, _, function = self.place.partition(":")
        built = getattr(import_module(module), function)
        if self.needs:
            session = import_module("proxy.cli.session")
            built = built(*(getattr(session, need) for need in self.needs))
        if isinstance(built, typer.Typer):
            line.add_typer(built, name=name)
        else:
            line.command(name)(built)


class _LazyCommand(TyperCommand):
    """A command that is listed by its help, and imported when it runs."""

    def __init__(self, name: str, entry: _Entry) -> None:
        super().__init__(name, help=entry.summary, rich_markup_mode="markdown")
        self._entry = entry

    def make_context(self, info_name: str | None, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """The context of the command itself, which is imported here."""
        line = typer.Typer(rich_markup_mode="markdown")
        self._entry.add_to(line, self.name or "")
        line.callback()(lambda: None)
        return get_group(line).commands[self.name or ""].make_context(info_name, *args, **extra)


class _LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - as typer calls it
        super().__init__(**attrs)
        self.commands = {name: _LazyCommand(name, entry) for name, entry in _TABLE.items()}

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """Runs a command; a value that is refused is told without the name of an exception."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


_commands = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=_HELP,
)


#: Beginning of each log line; ``store.logged`` reads it back.
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def _version(requested: bool) -> None:  # noqa: FBT001 - as typer calls it
    if requested:
        from importlib import metadata

        print(f"thriftgate {metadata.version('thriftgate')}")
        raise typer.Exit


@_commands.callback(help=_HELP)
def _options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


def main() -> None:
    """Run the command line."""
    gc.set_threshold(50_000, 10, 10)  # what is imported stays; looking through it takes 5 to 11 %
    os.umask(0o077)  # what it writes is its own user's, whatever umask it was started with
    if sys.argv[1:2] == ["serve"]:  # until the gateway can reload, there is nothing to reload
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    _commands()


_POLICY_NEEDS: Final = ("terminal", "settings", "policies")

_TABLE: Final = {
    "serve": _Entry("Take calls until told to stop.", "proxy.cli.serve:serve"),
    "demo": _Entry(
        "Show it: a gateway before a simulated upstream, and the calls of three teams.",
        "proxy.cli.serve:demo",
    ),
    "check": _Entry(
        "Validate settings and catalog, try the folder, PostgreSQL and Redis; name each fix.",
        "proxy.cli.check:check",
    ),
    "agents": _Entry(
        "Print how each coding agent is pointed at this gateway, in two lines.",
        "proxy.cli.agents:agents_command",
        ("terminal",),
    ),
    "migrate": _Entry(
        "Bring the database to the newest schema; all others do so too when they open it.",
        "proxy.cli.serve:migrate",
    ),
    "replay": _Entry(
        "Show what recorded calls cost, and what the gateway would have saved on them.",
        "proxy.tools.replay.command:command",
        ("catalog", "now"),
    ),
    "report": _Entry(
        "Calls, errors, tokens, hit rate, cost and times by team, and by what else is asked for.",
        "proxy.cli.reports.report:reports",
        ("terminal", "catalog", "settings", "policies"),
    ),
    "compact": _Entry(
        "Show what would be sent of a conversation, its facts, and why; nothing is sent.",
        "proxy.cli.compaction.compact:compact",
        ("terminal", "catalog"),
    ),
    "savings": _Entry(
        "Show what was saved against sending directly, and what planning saved by feature.",
        "proxy.cli.reports.savings:savings",
        ("terminal", "catalog", "settings"),
    ),
    "misses": _Entry(
        "Show reasons for cache misses: the dearest feature and reason first.",
        "proxy.cli.reports.savings:misses",
        ("terminal",),
    ),
    "budgets": _Entry(
        "Show what is spent and held of each budget in the present window.",
        "proxy.cli.policies.budgets:budgets",
        _POLICY_NEEDS,
    ),
    "explain": _Entry(
        "Explain one call: cost, what its cache gave and could have given, and why not more.",
        "proxy.cli.planning.explain:explain",
        ("terminal",),
    ),
    "export": _Entry(
        "Receipts as JSON, one a line, as the calls arrived.",
        "proxy.cli.reports.receipts:export",
        ("terminal",),
    ),
    "receipts": _Entry(
        "Put receipts that stand in a log alone into the ledger.",
        "proxy.cli.reports.receipts:receipts",
        ("terminal", "settings"),
    ),
    "simulator": _Entry(
        "Run the simulated upstream alone, until Ctrl-C: no key, no cost, nothing leaves here.",
        "proxy.cli.testing.simulator:simulator_command",
        ("terminal", "shipped_catalog"),
    ),
    "key": _Entry(
        "Make, list and revoke callers' keys.", "proxy.cli.keys:keys", ("terminal", "catalog")
    ),
    "team": _Entry(
        "Make and list teams, keep their prompts.", "proxy.cli.keys:teams", ("terminal",)
    ),
    "user": _Entry(
        "Look up end users, who are kept as hashes.", "proxy.cli.keys:users", ("terminal",)
    ),
    "admin": _Entry(
        "People who sign in to the dashboard.", "proxy.cli.admin:admin", ("terminal", "settings")
    ),
    "deploy": _Entry(
        "Mark a deploy on every chart over time.", "proxy.cli.admin:deploy_command", ("terminal",)
    ),
    "layout": _Entry(
        "See, approve and roll back how features' prompts are arranged.",
        "proxy.cli.planning.layouts:layouts",
        ("terminal",),
    ),
    "compaction": _Entry(
        "Show and choose the compaction of features.",
        "proxy.cli.compaction.compactions:compactions",
        ("terminal", "settings"),
    ),
    "objectives": _Entry(
        "Objectives of calls, their states, and other formats of them.",
        "proxy.cli.policies.objectives:objectives",
        _POLICY_NEEDS,
    ),
    "answers": _Entry(
        "Purge answers that may be given again.",
        "proxy.cli.policies.answers:answers",
        ("terminal",),
    ),
    "alerts": _Entry(
        "Show open alerts, and who was notified.", "proxy.cli.policies.alerts:alerts", _POLICY_NEEDS
    ),
    "dashboards": _Entry(
        "Boards for Grafana, rules for Prometheus.",
        "proxy.cli.reports.dashboards:dashboards",
        _POLICY_NEEDS,
    ),
    "bench": _Entry(
        "Measure any OpenAI-compatible server.", "proxy.cli.testing.bench:bench", ("terminal",)
    ),
    "engine": _Entry(
        "Self-hosted engines and their profiles.",
        "proxy.cli.engines.engines:engines",
        ("terminal", "settings"),
    ),
}


if __name__ == "__main__":
    main()
