"""``thriftgate engine``: plan, run and look at self-hosted engines by their profiles."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from proxy.cli.engines.engine_attach import add_attach
from proxy.cli.engines.engine_costs import add_costs
from proxy.cli.engines.engine_demo import add_engine_demo
from proxy.cli.engines.engine_manifests import add_manifest
from proxy.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    from proxy.cli.engines.engine_changes import RollingChanges
    from proxy.cli.engines.engine_processes import EnginePlan
    from proxy.engines.adapters.adapter import EngineAdapter
    from proxy.engines.adapters.launch_command import LaunchCommand
    from proxy.engines.profiles import EngineProfile
    from proxy.engines.speculation.auto_choice import SpeculationRecord
    from proxy.engines.supervision.replica_plan import ReplicaPlan
    from proxy.settings import Settings

_NO_FILE: Final = (
    "There is no engines file. THRIFTGATE_ENGINES or --file names one; "
    "--examples takes the profiles that are shipped."
)
#: Environment variables whose values are not shown.
_SECRET_NAME: Final = re.compile(r"(?i)token|secret|password|api_?key")
_HIDDEN: Final = "…"

_Name = Annotated[str, typer.Argument(metavar="PROFILE", help="Name of an [engines.NAME] table.")]
_File = Annotated[
    Path | None,
    typer.Option("--file", help="The TOML file of profiles, in place of THRIFTGATE_ENGINES."),
]
_Examples = Annotated[
    bool, typer.Option("--examples", help="Take the shipped profiles, one per technique.")
]


def engines(terminal: Terminal, settings: Callable[[], Settings]) -> typer.Typer:
    """The commands about engines."""
    group = typer.Typer(no_args_is_help=True, help="Self-hosted engines and their profiles.")
    group.callback()(lambda: None)
    commands = _Commands(terminal, settings)
    for name, command in (
        ("plan", commands.plan),
        ("serve", commands.serve),
        ("status", commands.status),
        ("advise", commands.advise),
    ):
        group.command(name)(command)
    add_attach(group, terminal)
    add_manifest(group, terminal, commands.next_start)
    add_engine_demo(group, terminal)
    add_costs(group, terminal, lambda: commands.profiles(None))
    return group


class _Commands:
    """The commands that read the profiles themselves."""

    def __init__(self, terminal: Terminal, settings: Callable[[], Settings]) -> None:
        self._terminal = terminal
        self._settings = settings

    def plan(
        self,
        name: _Name,
        *,
        file: _File = None,
        examples: _Examples = False,
        as_json: AsJson = False,
    ) -> None:
        """Print the exact command that starts a profile's replicas, and why each flag.

        Nothing is started. Replicas differ in their port and GPUs only.
        """
        from proxy.cli.engines.technique_lines import technique_documents, technique_lines
        from proxy.engines.adapters.by_engine import ADAPTERS

        terminal = self._terminal
        profile, why = self.next_start(name, file, examples)
        adapter = ADAPTERS[profile.engine]
        notes = [] if examples else _launch_notes(self._settings(), profile)
        if as_json:
            more = {
                "speculation_reason": why,
                "notes": notes,
                "techniques": technique_documents(profile),
            }
            terminal.print_json(_plan_document(profile, adapter) | more)
            return
        for line in (*_plan_lines(profile, adapter), *technique_lines(profile)):
            terminal.out.print(line, soft_wrap=True)  # not wrapped: the command is to be copied
        if why:
            terminal.say(f"Speculation is auto, and the next start takes: {why}.")
        terminal.say(*(f"Note: {note}" for note in notes))

    def serve(self, name: _Name, *, file: _File = None) -> None:
        """Start a profile's replicas, restart them where they fail, and drain them at the end.

        It runs until SIGTERM or Ctrl-C. Its exit status is 1 if every replica was given up.
        On SIGHUP, and when the profile changes in its file, replicas are replaced one by one.
        """
        from proxy.cli.engines.engine_launch_notes import program_problem
        from proxy.cli.engines.engine_processes import serve_engine
        from proxy.errors import OperatorError

        terminal, settings = self._terminal, self._settings()
        path = self._engines_file(file)
        profile = self._profile(self.profiles(path), name)
        if profile.is_attached:
            terminal.fail(f"Others run the replicas of {name}: its profile lists their URLs.")
        if why := program_problem(profile):
            terminal.fail(why)
        terminal.say(*(f"Note: {note}" for note in _launch_notes(settings, profile)))
        try:
            status = serve_engine(_serving_plan(terminal, settings, path, profile), terminal)
        except OperatorError as error:
            terminal.fail(str(error))
        raise typer.Exit(status)

    def status(
        self,
        name: Annotated[str, typer.Argument(metavar="[PROFILE]")] = "",
        *,
        as_json: AsJson = False,
    ) -> None:
        """Print the state of each replica that `engine serve` runs or ran."""
        from proxy.cli.engines.engine_status import print_engine_status

        print_engine_status(self._terminal, self._settings().folder, name, as_json=as_json)

    def advise(
        self,
        name: _Name,
        *,
        file: _File = None,
        days: Annotated[int, typer.Option(help="How many days back.", min=1)] = 7,
        as_json: AsJson = False,
    ) -> None:
        """Print which speculative settings pay on a profile, as measured."""
        from proxy.cli.engines.engine_advice import print_advice

        profile = self._profile(self.profiles(file), name)
        folder = self._settings().folder
        print_advice(self._terminal, profile, folder, days=days, as_json=as_json)

    def profiles(self, file: Path | None, *, examples: bool = False) -> dict[str, EngineProfile]:
        """The profiles of a file, of the one that the settings name, or the shipped ones."""
        from proxy.engines.techniques import example_profiles
        from slo.toml.problems import InvalidFile

        if examples:
            return example_profiles()
        path = self._engines_file(file)
        try:
            return _parse_file(path)
        except InvalidFile as bad:
            return self._terminal.fail(str(bad))
        except OSError as error:
            why = f"{path} cannot be read: {error.strerror}."
            return self._terminal.fail(
                f"{why} THRIFTGATE_ENGINES or --file names the engines file."
            )

    def next_start(
        self,
        name: str,
        file: Path | None,
        examples: bool,  # noqa: FBT001 - as manifest calls it
    ) -> tuple[EngineProfile, str]:
        """The profile as its next start runs it, and why it speculates so; "" if it says itself."""
        from proxy.engines.speculation.auto_choice import SpeculationRecord
        from proxy.engines.state.speculation_file import read_record, resolve_auto
        from proxy.engines.state.state_file import profile_folder

        profile = self._profile(self.profiles(file, examples=examples), name)
        record = SpeculationRecord()
        if profile.auto_speculation is not None and not examples:
            record = read_record(profile_folder(self._settings().folder, profile.name), profile)
        profile = resolve_auto(profile, record, self._terminal.now())
        return profile, record.choice.reason if record.choice is not None else ""

    def _engines_file(self, file: Path | None) -> Path:
        path = file or self._settings().engines
        return self._terminal.fail(_NO_FILE) if path is None else path

    def _profile(self, profiles: dict[str, EngineProfile], name: str) -> EngineProfile:
        from slo.toml.table_reader import suggest_name

        if name in profiles:
            return profiles[name]
        return self._terminal.fail(
            f"There is no engine profile {name}: {suggest_name(name, profiles)}"
        )


def _launch_notes(settings: Settings, profile: EngineProfile) -> list[str]:
    from proxy.cli.engines.engine_launch_notes import launch_notes
    from proxy.engines.state.state_file import read_engine_states

    running = [state.profile for state in read_engine_states(settings.folder) if state.is_running]
    return list(launch_notes(profile, settings.port, running))


def _serving_plan(
    terminal: Terminal, settings: Settings, path: Path, profile: EngineProfile
) -> EnginePlan:
    """The replicas that `engine serve` starts, and how they follow the file and the advisor."""
    from proxy.cli.engines.engine_changes import follow_measurements
    from proxy.cli.engines.engine_processes import EnginePlan
    from proxy.configuration import read_catalog
    from proxy.engines.adapters.by_engine import ADAPTERS
    from proxy.engines.state.speculation_file import SpeculationRecorder, read_record, write_record
    from proxy.engines.state.state_file import profile_folder
    from proxy.settings import engine_environment

    folder = profile_folder(settings.folder, profile.name)
    recorder = SpeculationRecorder(read_record(folder, profile))
    upstreams = read_catalog(settings).upstreams.values()

    def replan() -> ReplicaPlan:
        replica_plan = read_replica_plan(path, profile.name, recorder.record, terminal.now())
        if recorder.record.choice is not None:
            write_record(folder, recorder.record)
        return replica_plan

    async def follow(changes: RollingChanges) -> None:
        await follow_measurements(profile, recorder.record, changes, terminal.now)

    return EnginePlan(
        profile=profile.name,
        commands=replan().commands(),
        folder=settings.folder,
        environment=engine_environment(
            upstream.key_env for upstream in upstreams if upstream.key_env
        ),
        replan=replan,
        watched=(path,),
        adapter=ADAPTERS[profile.engine],
        recorder=recorder,
        follow=None if profile.auto_speculation is None else follow,
    )


def _parse_file(path: Path) -> dict[str, EngineProfile]:
    from proxy.configuration import read_file
    from proxy.engines.profile_file import parse_profiles
    from slo.toml.nodes import decode_toml

    return parse_profiles(decode_toml(read_file(path), str(path)), str(path))


def read_replica_plan(path: Path, name: str, record: SpeculationRecord, now: float) -> ReplicaPlan:
    """The replicas of a profile as its file says now; the record gets what ``auto`` chooses.

    Raises:
        InvalidFile: With every problem found.
        OSError: If the file cannot be read.
        OperatorError: If the profile is gone, or others run its replicas now.
    """
    from proxy.engines.state.speculation_file import resolve_auto
    from proxy.engines.supervision.replica_plan import plan_replicas
    from proxy.errors import OperatorError

    profiles = _parse_file(path)
    profile = profiles.get(name)
    if profile is None or profile.is_attached:
        raise OperatorError(f"{path} has no profile {name} to start any more.")
    return plan_replicas(resolve_auto(profile, record, now), sys.executable, profiles.values())


def _plan_lines(profile: EngineProfile, adapter: EngineAdapter) -> Iterator[str]:
    version = profile.version or adapter.newest_version
    count = profile.replica_count
    replicas = f"{count} replica{'' if count == 1 else 's'}"
    yield f"{profile.name}: {profile.served_name} on {profile.engine} {version}, {replicas}"
    if note := adapter.version_note(profile):
        yield f"Warning: {note}"
    if profile.is_attached:
        yield "Others run its replicas; nothing is started."
        yield f"They have to be started with {adapter.attach_needs}."
        for n in range(count):
            urls = adapter.urls(profile, n)
            yield f"  {urls.base_url}  health {urls.health_url}  metrics {urls.metrics_url}"
        return
    first = adapter.launch_command(profile, python=sys.executable)
    yield ""
    yield from _shell_lines(first)
    yield ""
    for flag in first.flags:
        yield shlex.join(flag.argv)
        yield f"    {flag.reason}"
    yield ""
    for n in range(count):
        yield f"replica {n}: {adapter.urls(profile, n).base_url}"
    yield f"It must be healthy within {first.start_seconds:.0f} s: {first.health_url}"


def _shell_lines(command: LaunchCommand) -> Iterator[str]:
    """The command as a shell takes it, a flag in a line."""
    env = [f"{name}={_shown_value(name, value)}" for name, value in command.env.items()]
    lines = [
        " ".join([*env, shlex.join(command.program)]),
        *(f"  {shlex.join(flag.argv)}" for flag in command.flags),
    ]
    for line in lines[:-1]:
        yield f"{line} \\"
    yield lines[-1]


def _shown_value(name: str, value: str) -> str:
    """The quoted value of an environment variable, unless its name says that it is a secret."""
    return _HIDDEN if _SECRET_NAME.search(name) else shlex.quote(value)


def _plan_document(profile: EngineProfile, adapter: EngineAdapter) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "engine": str(profile.engine),
        "version": profile.version or adapter.newest_version,
        "served_name": profile.served_name,
        "attached": profile.is_attached,
        "warnings": [note] if (note := adapter.version_note(profile)) else [],
        "replicas": [_replica_document(profile, adapter, n) for n in range(profile.replica_count)],
    }


def _replica_document(profile: EngineProfile, adapter: EngineAdapter, n: int) -> dict[str, Any]:
    urls = adapter.urls(profile, n)
    document: dict[str, Any] = urls._asdict()
    if profile.is_attached:
        return document
    command = adapter.launch_command(profile, n, sys.executable)
    return document | {
        "argv": command.argv,
        "env": {
            name: _HIDDEN if _SECRET_NAME.search(name) else value
            for name, value in command.env.items()
        },
        "flags": [{"argv": flag.argv, "reason": flag.reason} for flag in command.flags],
        "start_seconds": command.start_seconds,
        "drain_seconds": command.drain_seconds,
    }
