"""``thriftgate engine attach``: looks at a running engine, and writes the profile for it."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    import httpx2

    from proxy.engines.attachment import EnginePages, RecognisedEngine

_TIMEOUT_S: Final = 5.0
_MAX_PAGE_BYTES: Final = 8 * 1024 * 1024
_OK: Final = 200
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_Urls = Annotated[
    list[str], typer.Argument(metavar="URL…", help="Base URLs of replicas, such as http://gpu:8000")
]
_File = Annotated[
    Path | None, typer.Option("--write", help="Add the table to this file, once it is checked.")
]
_KeyEnv = Annotated[
    str,
    typer.Option(
        "--key-env",
        metavar="NAME",
        help="Environment variable that holds the engine's key, which itself is never written.",
    ),
]


def add_attach(commands: typer.Typer, terminal: Terminal) -> None:
    """Add the command that attaches to engines that others run."""

    @commands.command("attach")
    def attach(
        urls: _Urls,
        *,
        name: Annotated[str, typer.Option(help="Name of the profile.")] = "",
        region: Annotated[str, typer.Option(help="Region of the replicas.")] = "",
        key_env: _KeyEnv = "",
        write: _File = None,
        as_json: AsJson = False,
    ) -> None:
        """Look at running engines and print the profile table that attaches to them.

        All URLs are replicas of one model. Nothing is written unless --write names a file.
        """
        from proxy.engines.attachment import profile_table, recognise_engine

        bases = [url.rstrip("/").removesuffix("/v1") + "/v1" for url in urls]
        headers = _credentials(terminal, key_env)
        pages = [_fetch_pages(terminal, base, headers) for base in bases]
        recognised = [recognise_engine(page) for page in pages]
        _check_alike(terminal, bases, recognised)
        table = profile_table(recognised[0], bases, name=name, region=region, key_env=key_env)
        _check_table(terminal, table)
        if write is not None:
            _append(terminal, write, table)
        if as_json:
            first = recognised[0]
            terminal.print_json(
                {
                    "engine": first.engine,
                    "version": first.version,
                    "models": first.models,
                    "cache_tokens": first.cache_tokens,
                    "notes": first.notes,
                    "table": table,
                }
            )
            return
        _print_findings(terminal, recognised[0], table, write)


def _credentials(terminal: Terminal, key_env: str) -> dict[str, str]:
    """The headers with the key of a variable; ends the command where that holds none."""
    from proxy.settings import upstream_keys

    if not key_env:
        return {}
    # What was typed is not repeated: it may be the key itself.
    if not _ENV_NAME.fullmatch(key_env):
        return terminal.fail("--key-env takes the name of an environment variable, not a key.")
    key = upstream_keys([key_env]).get(key_env, "")
    if not key.isascii() or not key.isprintable() or not key:
        return terminal.fail(
            "The environment variable that --key-env names holds no key: set it to the engine's."
        )
    return {"authorization": f"Bearer {key}"}


def _fetch_pages(terminal: Terminal, base: str, headers: Mapping[str, str]) -> EnginePages:
    """The pages of one replica; ends the command where it does not answer."""
    import httpx2

    from proxy.engines.attachment import EnginePages

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs every request
    origin = base.removesuffix("/v1")
    with httpx2.Client(trust_env=False, timeout=_TIMEOUT_S, headers=headers) as client:
        try:
            models = _body(client, f"{base}/models")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = f"{type(error).__name__}: {error}"
            return terminal.fail(
                f"Nothing answers at {base}/models ({why}). Is the engine running, and is the"
                " address reachable from here?"
            )
        if not models:
            return terminal.fail(
                f"{base}/models does not answer 200. Write the address before /v1 of an"
                " OpenAI-compatible engine; where it asks for a key, --key-env NAME names the"
                " environment variable that holds it."
            )

        def page(path: str) -> bytes:
            try:
                return _body(client, origin + path)
            except httpx2.HTTPError:
                return b""

        metrics = page("/metrics") or page("/prometheus/metrics")
        return EnginePages(
            models=models, metrics=metrics, version=page("/version"), properties=page("/props")
        )


def _body(client: httpx2.Client, url: str) -> bytes:
    """The body of a page; b"" where its status is not 200, or it is too long."""
    with client.stream("GET", url) as answer:
        if answer.status_code != _OK:
            return b""
        body = b""
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _MAX_PAGE_BYTES:
                return b""
        return body


def _check_alike(terminal: Terminal, bases: list[str], recognised: list[RecognisedEngine]) -> None:
    """End the command where replicas differ in engine or model."""
    first = recognised[0]
    for base, engine in zip(bases, recognised, strict=True):
        if (engine.engine, engine.models[:1]) != (first.engine, first.models[:1]):
            terminal.fail(
                f"{base} serves {', '.join(engine.models) or 'no model'} on {engine.engine}, and"
                f" {bases[0]} serves {', '.join(first.models) or 'no model'} on {first.engine}."
                " Replicas of one profile serve one model: attach them one by one."
            )


def _check_table(terminal: Terminal, text: str, file: str = "the table") -> None:
    """End the command where a text has no valid profiles."""
    from proxy.engines.profile_file import parse_profiles
    from slo.toml.problems import InvalidFile

    try:
        parse_profiles(text, file)
    except InvalidFile as bad:
        terminal.fail(str(bad))


def _append(terminal: Terminal, file: Path, table: str) -> None:
    """Add the table to a file, which is checked as a whole before it is written."""
    try:
        before = file.read_text(encoding="utf8") if file.exists() else ""
        text = f"{before.rstrip()}\n\n{table}" if before.strip() else table
        _check_table(terminal, text, str(file))
        file.write_text(text, encoding="utf8")
    except OSError as error:
        terminal.fail(f"{file} cannot be written: {error.strerror}.")


def _print_findings(
    terminal: Terminal, recognised: RecognisedEngine, table: str, file: Path | None
) -> None:
    kind = f"{recognised.engine or 'unknown engine'} {recognised.version}".strip()
    terminal.say(f"Found {kind}, which serves {', '.join(recognised.models) or 'no model'}.")
    if recognised.cache_tokens:
        terminal.say(f"Its prefix cache has room for {recognised.cache_tokens:,} tokens.")
    for note in recognised.notes:
        terminal.say(f"Note: {note}")
    if file is not None:
        terminal.say(f"Added to {file}. THRIFTGATE_ENGINES={file} makes the gateway use it.")
        return
    terminal.say("Put this into the file that THRIFTGATE_ENGINES names, or use --write FILE:")
    terminal.say("")
    for line in table.rstrip().split("\n"):
        terminal.out.print(line, soft_wrap=True, markup=False, highlight=False)
