"""``thriftgate simulator``: the simulated upstream by itself, for a gateway of one's own.

It is marked as simulated here, in the catalog's lines, in a header of every answer and in every
answer's text.
"""

from __future__ import annotations

import errno
import shlex
import signal
from collections.abc import Callable, Collection, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy.caches.regimes import REGIMES
from proxy.cli.terminal import Terminal

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog
    from proxy.tools.simulator.models import SimulatedModel
    from proxy.tools.simulator.scenario import ScenarioPhase
    from proxy.tools.simulator.upstream import Simulator

_MODEL: Final = "gpt-5.4-mini"
#: The one regime that only Anthropic's own wire has.
_MARKED: Final = "anthropic-breakpoint"
#: Key that the catalog requires for a cache of blocks.
_BLOCK: Final = "block = 16\n"
#: The first line of the catalog that sends calls to the simulator.
_TITLE: Final = "# The simulator of `thriftgate simulator`: every answer is simulated."
#: The scenario that is shipped.
INCIDENT: Final = "incident"

_Port = Annotated[
    int, typer.Option(help="Where to listen; 0 takes any that is free.", min=0, max=65_535)
]
_Regime = Annotated[
    str,
    typer.Option(
        help="Serve one model, whose prompt cache has these rules, in place of the catalog's: "
        + ", ".join(sorted(REGIMES))
        + "."
    ),
]

_Scenario = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="A TOML file of what goes wrong over time, or `incident` for the one that is shipped.",
    ),
]


_CatalogFile = Annotated[
    str,
    typer.Option(
        metavar="FILE", help="Write the catalog that sends a gateway's calls here to this file."
    ),
]


def simulator_command(terminal: Terminal, shipped: Callable[[], Catalog]) -> Callable[..., None]:
    """The command."""

    def run_simulator(
        *,
        port: _Port = 8100,
        regime: _Regime = "",
        scenario: _Scenario = "",
        catalog: _CatalogFile = "",
    ) -> None:
        """Run the simulated upstream alone, until Ctrl-C: no key, no cost, nothing leaves here.

        It answers under the catalog's model names, with the providers' cache rules; what it says
        and how long it takes is made up.
        """
        if regime and regime not in REGIMES:
            raise typer.BadParameter(
                f"{regime!r} is none of {', '.join(sorted(REGIMES))}.", param_hint="--regime"
            )
        import asyncio

        import uvloop

        from proxy.tools.demo.catalog import simulated_models
        from proxy.tools.simulator.models import SimulatorSettings
        from proxy.tools.simulator.upstream import Simulator

        providers = shipped()
        served = {_model_name(regime): _model(regime)} if regime else simulated_models(providers)
        phases = _phases(terminal, scenario, served) if scenario else ()
        simulator = Simulator(
            SimulatorSettings(models=served), clock=terminal.now, sleep=asyncio.sleep, phases=phases
        )
        try:
            uvloop.run(_serve(terminal, simulator, providers, (port, regime, phases, catalog)))
        except OSError as error:
            if catalog and error.filename == catalog:
                terminal.fail(f"--catalog {catalog} cannot be written: {error.strerror}.")
            if error.errno == errno.EADDRINUSE:
                why = "it is taken. --port names another; 0 takes any that is free."
            else:
                why = f"{error.strerror}. --port names another."
            terminal.fail(f"Cannot listen on port {port} of 127.0.0.1: {why}")

    return run_simulator


def _phases(
    terminal: Terminal, scenario: str, served: Collection[str]
) -> tuple[ScenarioPhase, ...]:
    """The phases of a scenario file, or of the one that is shipped by that name."""
    from proxy.tools.simulator.scenario import read
    from slo.toml.nodes import decode_toml
    from slo.toml.problems import InvalidFile

    try:
        if scenario == INCIDENT:
            text = (
                resources.files("proxy.tools.simulator").joinpath("incident.toml").read_text("utf8")
            )
        else:
            text = decode_toml(Path(scenario).read_bytes(), scenario)
        return read(text, scenario, served)
    except InvalidFile as bad:
        return terminal.fail(str(bad))
    except OSError as error:
        return terminal.fail(f"--scenario {scenario} cannot be read: {error.strerror}.")


async def _serve(
    terminal: Terminal,
    simulator: Simulator,
    catalog: Catalog,
    options: tuple[int, str, tuple[ScenarioPhase, ...], str],
) -> None:
    import asyncio

    from proxy.tools.demo.catalog import redirected_catalog
    from proxy.tools.simulator.app import app
    from proxy.tools.simulator.server import serving

    port, regime, phases, file = options
    stopped = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    async with serving(app(simulator), port) as base_url:
        for phase in phases:
            terminal.out.print(f"Scenario: {phase}.", soft_wrap=True)
        lines = _catalog_toml(regime, base_url) if regime else redirected_catalog(catalog, base_url)
        if file:
            text = "\n".join([_TITLE, *lines.rstrip().splitlines(), ""])
            await asyncio.to_thread(Path(file).write_text, text, "utf8")
        model = _model_name(regime) if regime else _MODEL
        for line in _welcome_text(base_url, "" if file else lines, model, regime, file):
            # Never folded: most are to be copied.
            terminal.out.print(line, soft_wrap=True)
        await stopped.wait()
    terminal.say("The simulator stopped.")


def _model_name(regime: str) -> str:
    return f"simulator-{regime}"


def _model(regime: str) -> SimulatedModel:
    from proxy.tools.simulator.models import SimulatedModel

    return SimulatedModel(wire="anthropic" if regime == _MARKED else "openai", regime=regime)


def _catalog_toml(regime: _Regime, base_url: str) -> str:
    """An upstream and its one model in TOML; free, so without a price."""
    from proxy.tools.demo.catalog import KEY

    marked = regime == _MARKED
    headers = f'x-api-key = "{KEY}"' if marked else f'authorization = "Bearer {KEY}"'
    return (
        "[upstreams.simulator]\n"
        f'kind = "{"anthropic" if marked else "openai"}"\n'
        f'base_url = "{base_url}"\n'
        f"headers = {{ {headers} }}\n\n"
        "[[models]]\n"
        f'id = "{_model_name(regime)}"\n'
        'upstream = "simulator"\n'
        f'regime = "{regime}"\n'
        f"{_BLOCK if regime == 'block-chain' else ''}"
        "max_output = 16384\n"
    )


def _welcome_text(
    base_url: str, lines: str, model: str, regime: str, file: str = ""
) -> Iterator[str]:
    """The lines that tell a person how to use the simulator.

    Args:
        lines: The catalog to save; "" where ``file`` has it already.
        regime: The one cache rule that is simulated; "" for all.
        file: The file with the catalog; "" for none.
    """
    yield f"The simulator listens on {base_url}. It is SIMULATED: no provider is asked or paid."
    yield "Model names and cache rules are the providers'; answers and waits are made up."
    yield ""
    if file:
        yield f"The catalog that stands a gateway before it is in {file}."
    else:
        yield "To stand a gateway before it, save these lines as simulator.toml"
        yield "(--catalog simulator.toml writes them):"
        yield ""
        yield _TITLE
        yield from lines.rstrip().splitlines()
    yield ""
    yield "In another terminal; the folder keeps simulated costs out of your ledger:"
    yield ""
    named = shlex.quote(file or "simulator.toml")
    yield f"THRIFTGATE_CATALOG={named} THRIFTGATE_FOLDER=var/simulator thriftgate serve"
    yield ""
    yield "Then call the gateway, with the key it prints:"
    yield ""
    yield _curl("http://127.0.0.1:8080/v1/chat/completions", "tg-…", model)
    yield ""
    if regime != _MARKED:
        yield "Or the simulator itself, with any key:"
        yield ""
        yield _curl(f"{base_url}/chat/completions", "any", model)
        yield ""
    yield "A user's message with [[fault:429]], [[fault:hang]] or [[fault:death]] makes it fail so."
    yield "Ctrl-C to stop."


def _curl(url: str, key: str, model: str) -> str:
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    return (
        f"curl -i {url} -H 'authorization: Bearer {key}'"
        f" -H 'content-type: application/json' -d '{body}'"
    )
