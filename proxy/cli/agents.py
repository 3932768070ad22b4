"""``thriftgate agents``: the two lines of configuration that point a coding agent here."""

from collections.abc import Callable
from string import Template
from typing import Annotated, Final

import msgspec
import typer

from proxy.cli import session
from proxy.cli.terminal import AsJson, Terminal
from proxy.records.agents import AGENTS

#: Stands for what only its reader knows.
_KEY: Final = "tg-…"
_MODEL: Final = "MODEL"
#: Addresses that are listened at and cannot be called.
_LOCAL: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - it is asked, not bound

Url = Annotated[
    str, typer.Option(help="The gateway's address, without /v1; by default this machine's.")
]
Key = Annotated[str, typer.Option(help="A key of the gateway.")]
Model = Annotated[str, typer.Option(help="A model of the catalog.")]


def agents_command(terminal: Terminal) -> Callable[..., None]:
    """The command ``agents``."""

    def agents(
        name: Annotated[str, typer.Argument(help="One agent alone, such as claude-code.")] = "",
        *,
        url: Url = "",
        key: Key = _KEY,
        model: Model = _MODEL,
        as_json: AsJson = False,
    ) -> None:
        """Print how each coding agent is pointed at this gateway, in two lines.

        Calls of an agent that name no feature are booked on the agent's name.
        """
        chosen = [agent for agent in AGENTS if name in ("", agent.name)]
        if not chosen:
            names = ", ".join(agent.name for agent in AGENTS)
            terminal.fail(f"There is no agent {name!r}. Known are {names}.")
        place = url.rstrip("/").removesuffix("/v1") or _own_url()
        values = {"url": place, "key": key, "model": model}
        shown = [
            {
                "name": agent.name,
                "title": agent.title,
                "lines": [Template(line).substitute(values) for line in agent.lines],
            }
            for agent in chosen
        ]
        if as_json:
            terminal.out.print(msgspec.json.encode(shown).decode(), soft_wrap=True, markup=False)
            return
        for agent in shown:
            for line in (f"{agent['title']} ({agent['name']})", *agent["lines"], ""):
                terminal.out.print(line, soft_wrap=True, markup=False, highlight=False)

    return agents


def _own_url() -> str:
    chosen = session.settings()
    host = _LOCAL.get(chosen.host, chosen.host)
    return f"http://[{host}]:{chosen.port}" if ":" in host else f"http://{host}:{chosen.port}"
