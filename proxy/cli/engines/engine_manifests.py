"""``thriftgate engine manifest``: a profile as YAML for clusters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from proxy.engines.manifests.deployment import ManifestOptions
from proxy.engines.manifests.targets import ManifestTarget

if TYPE_CHECKING:
    from proxy.cli.terminal import Terminal
    from proxy.engines.manifests.targets import EngineManifest
    from proxy.engines.profiles import EngineProfile

_DEFAULTS: Final = ManifestOptions()
_Name = Annotated[str, typer.Argument(metavar="PROFILE", help="Name of an [engines.NAME] table.")]
_Target = Annotated[ManifestTarget, typer.Option("--for", help="The software that runs replicas.")]
_File = Annotated[
    Path | None, typer.Option("--file", help="File of profiles, in place of THRIFTGATE_ENGINES.")
]
_Examples = Annotated[bool, typer.Option("--examples", help="Take a shipped profile.")]
_Image = Annotated[str, typer.Option(help="Container image, as NAME:TAG.")]
_Storage = Annotated[str, typer.Option(help="Size of the volume for weights.")]
_MaxReplicas = Annotated[
    int, typer.Option(min=0, help="Replicas at most; above the profile's number they scale.")
]
_Prometheus = Annotated[str, typer.Option(help="Base URL of the Prometheus that KEDA asks.")]
_Attached = Annotated[
    bool, typer.Option("--attached", help="Print the table for the gateway instead.")
]


def add_manifest(
    commands: typer.Typer,
    terminal: Terminal,
    find: Callable[[str, Path | None, bool], tuple[EngineProfile, str]],
) -> None:
    """Add the command that prints manifests.

    Args:
        find: The profile of a name in a file, or among the examples, with the speculation that it
            starts with, and the reason for that where it is chosen.
    """

    @commands.command("manifest")
    def manifest(  # noqa: PLR0913 - options of a command
        name: _Name,
        target: _Target,
        *,
        file: _File = None,
        examples: _Examples = False,
        namespace: str = _DEFAULTS.namespace,
        image: _Image = "",
        storage: _Storage = _DEFAULTS.storage,
        max_replicas: _MaxReplicas = 0,
        prometheus: _Prometheus = _DEFAULTS.prometheus,
        attached: _Attached = False,
    ) -> None:
        """Print a profile as YAML for a cluster, or the table to attach to its replicas.

        Nothing is started. The command to apply it stands in the first line.
        """
        from proxy.engines.manifests.targets import build_manifest

        options = ManifestOptions(
            namespace=namespace,
            image=image,
            storage=storage,
            max_replicas=max_replicas,
            prometheus=prometheus,
        )
        try:
            profile, why = find(name, file, examples)
            built = build_manifest(profile, target, options)
        except ValueError as error:
            terminal.fail(f"{error}.")
        text = built.attached if attached else _yaml(built, why)
        terminal.out.file.write(text)  # not wrapped: it is to be piped


def _yaml(manifest: EngineManifest, why: str) -> str:
    """The documents under comments: how to apply them, and why they speculate as they do."""
    from proxy.cli.yaml_documents import dump_yaml

    note = f"# Speculation is auto, and this manifest takes: {why}.\n" if why else ""
    return f"# {manifest.apply}\n{note}{dump_yaml(manifest.documents)}"
