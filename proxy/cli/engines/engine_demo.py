"""``thriftgate engine demo``: a tiny model of our own on this machine, behind the gateway."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy.cli.terminal import Terminal, sentence
from proxy.errors import how_to_install

if TYPE_CHECKING:
    from proxy.tools.engine_demo.run import EngineDemoOptions

_MISSING_EXTRA: Final = (
    "The engine demo needs llama.cpp's server, which the extra [local] holds:"
    f" {how_to_install('local')}"
)
#: US dollars for an hour of the machine, unless --price says: a virtual machine with two cores.
_PRICE: Final = "0.10"
_MAX_PRICE: Final = 10_000
_ROUNDS: Final = 5
_SHORT_ROUNDS: Final = 2

_Leave = Annotated[bool, typer.Option("--exit", help="End after the tables.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON only.")]
_Short = Annotated[bool, typer.Option("--short", help="Measure two rounds, not five.")]
_Port = Annotated[
    int, typer.Option(envvar="THRIFTGATE_PORT", help="Where to listen, or on the next free port.")
]
_Price = Annotated[str, typer.Option(help="US dollars for an hour of this machine.")]


def has_local_extra() -> bool:
    """True if the wheel with llama.cpp's server is installed."""
    return find_spec("xllamacpp") is not None


def add_engine_demo(
    commands: typer.Typer, terminal: Terminal, has_extra: Callable[[], bool] = has_local_extra
) -> None:
    """Add the command."""

    @commands.command("demo")
    def demo(
        *,
        leave: _Leave = False,
        as_json: _AsJson = False,
        short: _Short = False,
        port: _Port = 8080,
        price: _Price = _PRICE,
    ) -> None:
        """Serve a tiny model on this machine: speculation, warm prefixes, and what a call costs.

        Needs the extra [local]. Nothing is downloaded, and nothing is left behind.
        """
        if not has_extra():
            terminal.fail(_MISSING_EXTRA)
        price = _price_text(terminal, price)
        from proxy.tools.engine_demo.run import EngineDemoOptions

        options = EngineDemoOptions(
            now=datetime.fromtimestamp(terminal.now(), UTC),
            port=port,
            stays=not leave,
            rounds=_SHORT_ROUNDS if short else _ROUNDS,
            price_per_hour=price,
        )
        raise typer.Exit(_run(terminal, options, as_json=as_json))


def _run(terminal: Terminal, options: "EngineDemoOptions", *, as_json: bool) -> int:
    """The exit status of the demo; ends the command with the reason where it cannot go on."""
    from rich.console import Console

    from proxy.cli.engines.engine_processes import supervision_ports
    from proxy.errors import OperatorError
    from proxy.tools.engine_demo.run import run

    logging.getLogger().setLevel(logging.ERROR)
    out = terminal.out if as_json else Console(quiet=True)
    try:
        return run(
            Console(quiet=as_json, highlight=False),
            options,
            lambda: supervision_ports(terminal.now),
            lambda result: out.print(result.json(), soft_wrap=True),
        )
    except (OSError, OperatorError) as error:
        return terminal.fail(f"The engine demo cannot go on: {sentence(error)}")


def _price_text(terminal: Terminal, text: str) -> str:
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal(-1)
    if not (price.is_finite() and 0 < price < _MAX_PRICE):
        terminal.fail(f"--price is {text}: write US dollars an hour, such as {_PRICE}.")
    return f"{price:f}"
