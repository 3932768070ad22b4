"""``thriftgate serve`` starts the gateway, ``demo`` a gateway in front of the simulator.

What each needs is checked before the gateway itself is imported.
"""

import logging
from datetime import UTC, datetime
from typing import Annotated

import typer

from proxy.cli import session
from proxy.cli.storage_checks import folder_problem
from proxy.errors import how_to_install
from proxy.settings import Settings


def serve(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            help="Where to listen; THRIFTGATE_PORT without.", min=1, max=65_535, show_default=False
        ),
    ] = None,
    simulated: Annotated[
        bool,
        typer.Option("--simulated", help="Answer by a simulator: no key, no cost, no provider."),
    ] = False,
) -> None:
    """Take calls until told to stop.

    With OPENAI_API_KEY or ANTHROPIC_API_KEY set there is nothing else to configure: on the first
    start a team named `default` and a key for it are made, and the key is printed once.
    """
    settings = session.settings()
    if port is not None:
        settings = settings.model_copy(update={"port": port})
    if simulated:
        _serve_simulated(settings)
    else:
        _serve(settings)


def _serve_simulated(settings: Settings) -> None:
    from proxy.cli.testing.simulated_upstream import simulated_upstream

    try:
        with simulated_upstream(settings, session.shipped_catalog(), session.now) as redirected:
            session.out.print(
                "SIMULATED: no provider is asked or paid, and all answers are made up. For other"
                f" commands about these calls: THRIFTGATE_FOLDER={redirected.folder}",
                soft_wrap=True,
            )
            _serve(redirected)
    except OSError as error:
        session.fail(f"The simulator cannot start: {error}")


def _serve(settings: Settings) -> None:
    catalog = session.catalog(settings)
    policies = session.policies(settings, catalog)
    if why := folder_problem(settings.folder):
        session.fail(why)
    from proxy.cli.gateway_process import run_gateway

    run_gateway(settings, catalog, policies)


def migrate() -> None:
    """Bring the database to the newest schema; all others do so too when they open it."""
    with session.terminal.store():
        session.out.print("The database has the newest schema.")


def demo(
    *,
    leave: Annotated[bool, typer.Option("--exit", help="End after the table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON only.")] = False,
    port: Annotated[
        int,
        typer.Option(envvar="THRIFTGATE_PORT", help="Where to listen, or on the next free port."),
    ] = 8080,
    calls: Annotated[int, typer.Option(help="How many calls to send.", min=1)] = 200,
) -> None:
    """Show it: a gateway before a simulated upstream, and the calls of three teams.

    Nothing has to be set up and nothing is left behind. With --exit the status is 0 if every call
    was answered and stands in the ledger once, else 1.
    """
    from rich.console import Console

    try:
        from proxy.tools.demo import run
    except ModuleNotFoundError as missing:
        if missing.name != "openai":
            raise
        session.fail(f"The demo needs the package openai: {how_to_install('demo')}")

    logging.getLogger().setLevel(logging.ERROR)
    try:
        status = run.run(
            Console(quiet=as_json, highlight=False),
            now=datetime.fromtimestamp(session.now(), UTC),
            port=port,
            stays=not leave,
            count=calls,
            tell=lambda result: (
                session.out.print(result.json(), soft_wrap=True) if as_json else None
            ),
        )
    except OSError as error:
        session.fail(f"The demo cannot start: {error}")
    raise typer.Exit(status)
