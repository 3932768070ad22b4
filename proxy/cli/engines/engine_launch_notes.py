"""Checks of engine profiles on this machine: program, files, ports, who answers."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from proxy.catalog.engine_layer import replica_upstream
from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.adapters.llamacpp import is_file
from proxy.engines.profiles import Engine
from proxy.engines.supervision.replica_process import port_conflict
from proxy.errors import how_to_install
from proxy.services.engines.replica_monitor import reports_by_replica

if TYPE_CHECKING:
    from proxy.engines.profiles import EngineProfile
    from proxy.engines.state.state_file import EngineState

_INSTALL: Final = {
    "vllm": "install it with `pip install vllm` in an environment of its own",
    "llama-server": "build or download llama.cpp",
}
#: Seconds within which something has to listen, and connections tried at once.
_PROBE_S: Final = 0.5
_MAX_PROBES: Final = 32


def launch_notes(
    profile: EngineProfile, gateway_port: int, supervised: Sequence[str] = ()
) -> Iterator[str]:
    """Sentences on what keeps a profile from being started here.

    Args:
        supervised: Names of profiles that run here already, whose ports are taken by themselves.
    """
    if profile.is_attached:
        return
    if why := program_problem(profile):
        yield why
    yield from _file_notes(profile)
    yield from _port_notes(profile, gateway_port, is_running=profile.name in supervised)


def program_problem(profile: EngineProfile) -> str:
    """The reason that a profile's program cannot be started, with what to install; "" for none."""
    program = ADAPTERS[profile.engine].launch_command(profile, python=sys.executable).program
    if profile.engine is Engine.LLAMACPP and not profile.program:
        if find_spec("xllamacpp") is None:
            return f"llama.cpp's server is not installed: {how_to_install('local')}."
        return ""
    if shutil.which(program[0]) is not None:
        return ""
    install = _INSTALL.get(Path(program[0]).name, "install it")
    return (
        f"{program[0]} is not installed or not on the PATH: {install}, or name another program in"
        f" the field program of [engines.{profile.name}]."
    )


def silent_replicas(
    profiles: Iterable[EngineProfile], states: Sequence[EngineState]
) -> dict[str, str]:
    """The replicas that do not answer yet by their upstream, each with what to do."""
    running = {state.profile: state.replicas for state in states if state.is_running}
    places = []
    for profile in profiles:
        replicas = () if profile.is_attached else running.get(profile.name, ())
        reports = (
            reports_by_replica(profile, replicas) if replicas else [None] * profile.replica_count
        )
        for number, report in enumerate(reports):
            url = ADAPTERS[profile.engine].urls(profile, number).base_url
            places.append((profile, number, url if report is None else report.base_url))
    if not places:
        return {}
    with ThreadPoolExecutor(min(len(places), _MAX_PROBES)) as pool:
        answers = list(pool.map(_is_listening, (url for _, _, url in places)))
    return {
        replica_upstream(profile.name, number): f"connection refused at {url}"
        + ("" if profile.is_attached else f"; `thriftgate engine serve {profile.name}` starts it")
        for (profile, number, url), is_listening in zip(places, answers, strict=True)
        if not is_listening
    }


def _is_listening(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _PROBE_S).close()
    except OSError:
        return False
    return True


def _file_notes(profile: EngineProfile) -> Iterator[str]:
    draft = profile.speculation.draft if profile.speculation else ""
    for field, model in (("model", profile.model), ("draft", draft)):
        if model.startswith("~"):
            yield f"{field} {model} begins with ~, which no engine resolves: write the whole path."
        elif is_file(model) and not Path(model).exists():
            yield f"{field} {model} does not exist here ({Path(model).absolute()})."


def _port_notes(profile: EngineProfile, gateway_port: int, *, is_running: bool) -> Iterator[str]:
    if gateway_port in profile.ports:
        yield f"port {gateway_port} is the gateway's own: write another port."
    if is_running:
        return
    for number in range(profile.replica_count):
        if why := port_conflict(ADAPTERS[profile.engine].urls(profile, number).health_url):
            yield f"{why}."
