"""The command line: its commands by name; the modules of a command are imported when it runs.

``--version`` and ``--help`` import none of them, so they answer at once.
"""

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

_HELP: Final = (
    "A gateway in front of language models. Settings are THRIFTGATE_… environment variables."
)


class _LazyCommand(TyperCommand):
    """A command that is listed by its help, and imported when it runs.

    Args:
        add: Imports it and adds it to a command line.
    """

    def __init__(self, name: str, summary: str, add: Callable[[typer.Typer], object]) -> None:
        super().__init__(name, help=summary, rich_markup_mode="markdown")
        self._add = add

    def make_context(self, info_name: str | None, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - as typer calls it
        """The context of the command itself, which is imported here."""
        line = typer.Typer(rich_markup_mode="markdown")
        self._add(line)
        line.callback()(lambda: None)
        return get_group(line).commands[self.name or ""].make_context(info_name, *args, **extra)


class _LazyGroup(TyperGroup):
    """The commands of the table."""

    def __init__(self, **attrs: Any) -> None:  # noqa: ANN401 - as typer calls it
        super().__init__(**attrs)
        self.commands = {
            name: _LazyCommand(name, summary, add) for name, (summary, add) in _TABLE.items()
        }

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


def _serve(line: typer.Typer) -> None:
    from proxy.cli import serve

    line.command("serve")(serve.serve)


def _demo(line: typer.Typer) -> None:
    from proxy.cli import serve

    line.command("demo")(serve.demo)


def _check(line: typer.Typer) -> None:
    from proxy.cli import check

    line.command("check")(check.check)


def _agents(line: typer.Typer) -> None:
    from proxy.cli import agents, session

    line.command("agents")(agents.agents_command(session.terminal))


def _migrate(line: typer.Typer) -> None:
    from proxy.cli import session

    @line.command("migrate")
    def migrate() -> None:
        """Bring the database to the newest schema; all others do so too when they open it."""
        with session.terminal.store():
            session.out.print("The database has the newest schema.")


def _replay(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.tools.replay import command

    line.command("replay")(command.command(session.catalog, session.now))


def _report(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import report

    commands = report.reports(session.terminal, session.catalog, session.settings, session.policies)
    line.add_typer(commands, name="report")


def _compact(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.compaction import compact

    compact.compact(line, session.terminal, session.catalog)


def _savings(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import savings

    line.command("savings")(savings.savings(session.terminal, session.catalog, session.settings))


def _misses(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import savings

    line.command("misses")(savings.misses(session.terminal))


def _budgets(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.policies import budgets

    line.command("budgets")(budgets.budgets(session.terminal, session.settings, session.policies))


def _explain(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.planning import explain

    line.command("explain")(explain.explain(session.terminal))


def _export(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import receipts

    line.command("export")(receipts.export(session.terminal))


def _receipts(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import receipts

    line.add_typer(receipts.receipts(session.terminal, session.settings), name="receipts")


def _simulator(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.testing import simulator

    line.command("simulator")(
        simulator.simulator_command(session.terminal, session.shipped_catalog)
    )


def _key(line: typer.Typer) -> None:
    from proxy.cli import keys, session

    line.add_typer(keys.keys(session.terminal, session.catalog), name="key")


def _team(line: typer.Typer) -> None:
    from proxy.cli import keys, session

    line.add_typer(keys.teams(session.terminal), name="team")


def _user(line: typer.Typer) -> None:
    from proxy.cli import keys, session

    line.add_typer(keys.users(session.terminal), name="user")


def _admin(line: typer.Typer) -> None:
    from proxy.cli import admin, session

    line.add_typer(admin.admin(session.terminal, session.settings), name="admin")


def _layout(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.planning import layouts

    line.add_typer(layouts.layouts(session.terminal), name="layout")


def _compaction(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.compaction import compactions

    commands = compactions.compactions(session.terminal, session.settings)
    line.add_typer(commands, name="compaction")


def _objectives(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.policies import objectives

    commands = objectives.objectives(session.terminal, session.settings, session.policies)
    line.add_typer(commands, name="objectives")


def _dashboards(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.reports import dashboards

    commands = dashboards.dashboards(session.terminal, session.settings, session.policies)
    line.add_typer(commands, name="dashboards")


def _alerts(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.policies import alerts

    commands = alerts.alerts(session.terminal, session.settings, session.policies)
    line.add_typer(commands, name="alerts")


def _engine(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.engines import engines

    line.add_typer(engines.engines(session.terminal, session.settings), name="engine")


def _bench(line: typer.Typer) -> None:
    from proxy.cli import session
    from proxy.cli.testing import bench

    line.add_typer(bench.bench(session.terminal), name="bench")


#: Each command: the first paragraph of its help, and what imports it and adds it to a line.
_TABLE: Final[dict[str, tuple[str, Callable[[typer.Typer], object]]]] = {
    "serve": ("Take calls until told to stop.", _serve),
    "demo": (
        "Show it: a gateway before a simulated upstream, and the calls of three teams.",
        _demo,
    ),
    "check": (
        "Validate settings and catalog, try the folder, PostgreSQL and Redis; name each fix.",
        _check,
    ),
    "agents": (
        "Print how each coding agent is pointed at this gateway, in two lines.",
        _agents,
    ),
    "migrate": (
        "Bring the database to the newest schema; all others do so too when they open it.",
        _migrate,
    ),
    "replay": (
        "Show what recorded calls cost, and what the gateway would have saved on them.",
        _replay,
    ),
    "report": (
        "Calls, errors, tokens, hit rate, cost and times by team, and by what else is asked for.",
        _report,
    ),
    "compact": (
        "Show what would be sent of a conversation, its facts, and why; nothing is sent.",
        _compact,
    ),
    "savings": (
        "Show what was saved against sending directly, and what planning saved by feature.",
        _savings,
    ),
    "misses": (
        "Show reasons for cache misses: the dearest feature and reason first.",
        _misses,
    ),
    "budgets": ("Show what is spent and held of each budget in the present window.", _budgets),
    "explain": (
        "Explain one call: cost, what its cache gave and could have given, and why not more.",
        _explain,
    ),
    "export": ("Receipts as JSON, one a line, as the calls arrived.", _export),
    "receipts": ("Put receipts that stand in a log alone into the ledger.", _receipts),
    "simulator": (
        "Run the simulated upstream alone, until Ctrl-C: no key, no cost, nothing leaves here.",
        _simulator,
    ),
    "key": ("Make, list and revoke callers' keys.", _key),
    "team": ("Make and list teams, keep their prompts.", _team),
    "user": ("Look up end users, who are kept as hashes.", _user),
    "admin": ("People who sign in to the dashboard.", _admin),
    "layout": ("See, approve and roll back how features' prompts are arranged.", _layout),
    "compaction": ("Show and choose the compaction of features.", _compaction),
    "objectives": ("Objectives of calls, their states, and other formats of them.", _objectives),
    "alerts": ("Show open alerts, and who was notified.", _alerts),
    "dashboards": ("Boards for Grafana, rules for Prometheus.", _dashboards),
    "bench": ("Measure any OpenAI-compatible server.", _bench),
    "engine": ("Self-hosted engines and their profiles.", _engine),
}


if __name__ == "__main__":
    main()
