"""Reads and checks the files that settings name: catalog, engines, policies.

An error names file and line.

All that the operator may change while the gateway runs stands in these files; settings are read
once. All files together make one immutable snapshot. A running gateway swaps it whole
(``proxy.reloading``): each part first prepares, which may fail, and then commits.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from stat import S_ISREG
from typing import Final, TypeAlias

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.catalog.engine_layer import EngineEntry
from proxy.catalog.load import load
from proxy.engines.adapters.by_engine import catalog_entry
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import EngineProfile
from proxy.records.amounts import quantity
from proxy.settings import Settings, upstream_keys
from proxy.upstream.cloud_packages import is_package_installed
from slo.objectives.ladder_levels import RESERVED_LEVELS
from slo.policies.file import Policies, models, policies_by_kind, read
from slo.toml.nodes import Node, decode_toml, parse_toml
from slo.toml.problems import InvalidFile, Problem

#: Seconds between two looks at the files. What two looks in a row find alike is read, so that no
#: file is read while somebody writes it.
POLL_S: Final = 1.0

#: Largest size of a file, some ten thousand models; larger ones are a mistake in its name.
MAX_FILE_BYTES: Final = 4 << 20

#: Of each file its inode, size and time of change in nanoseconds; None for one that is not there.
FileStamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class CatalogSource(msgspec.Struct, frozen=True):
    """The texts that a catalog is made of, as they were read.

    Attributes:
        user: That of the operator's file; None for none.
        file: Name of that file.
    """

    shipped: str
    user: str | None
    file: str
    engines: Sequence[EngineEntry]
    passes_unlisted: bool

    def load(self, stored: str = "") -> Catalog:
        """The catalog, with what people set on pages.

        Raises:
            InvalidFile: With every problem found.
        """
        names = "models.toml", self.file
        catalog = load(self.shipped, self.user, names=names, engines=self.engines, stored=stored)
        if not self.passes_unlisted:
            return catalog.refusing_unlisted()
        return catalog.passing_to(upstreams_with_keys(catalog))


class PageProblem(msgspec.Struct, frozen=True):
    """A reason that an entry set on pages is not in force, or not all of it.

    Attributes:
        reason: As the end of a sentence.
        is_left_out: False where a part of it is in force.
    """

    reason: str
    is_left_out: bool = True


class DisabledRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route, or a model with all its routes, that people have disabled.

    Attributes:
        kind: ``route`` or ``model``.
        until: End of it, in seconds since the epoch as ``since`` is; None until it is enabled.
        why: In the words of who disabled it.
    """

    kind: str
    name: str
    until: float | None
    why: str
    who: str
    since: float

    @property
    def key(self) -> str:
        """Its name as it is kept."""
        return f"{self.kind} {self.name}"


class Snapshot(msgspec.Struct, frozen=True):
    """The catalog, the engines and the policies that are in force together.

    Attributes:
        engines: Profiles of self-hosted engines, by name; the catalog has their replicas.
        upstreams_with_keys: Upstreams that can be asked: they have the key they need.
        source: The texts of the catalog; None where it was not read from files.
        page_problems: Of policies and entries of the catalog set on pages, by kind and name.
        disabled_routes: Routes and models that get no calls; the catalog's routes say so, too.
    """

    catalog: Catalog
    policies: Policies
    upstreams_with_keys: Collection[str] = ()
    engines: Mapping[str, EngineProfile] = {}
    source: CatalogSource | None = None
    page_problems: Mapping[tuple[str, str], PageProblem] = {}
    disabled_routes: Sequence[DisabledRoute] = ()


#: Gets ready for a snapshot, or raises ``OperatorError``; its result makes it hold, at
#: once and without failing.
Prepare: TypeAlias = Callable[[Snapshot], Awaitable[Callable[[], None]]]


_UNKNOWN: Final = "write a model's public name, or add it to the catalog"


def read_file(path: Path) -> bytes:
    """The bytes of one of the operator's files; a pipe, device or folder is not waited for.

    Raises:
        InvalidFile: It is no regular file, or larger than ``MAX_FILE_BYTES``.
        OSError: It cannot be read.
    """
    if S_ISREG(path.stat().st_mode):  # opening a device may do something
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_regular = S_ISREG(os.fstat(file.fileno()).st_mode)
            content = file.read(MAX_FILE_BYTES + 1) if is_regular else b""
        if is_regular and len(content) <= MAX_FILE_BYTES:
            return content
        if is_regular:
            what = f"is larger than {MAX_FILE_BYTES >> 20} MiB"
            raise InvalidFile([_file_problem(path, what, "name the right file, or split it")])
    raise InvalidFile([_file_problem(path, "is no regular file", "name a file of TOML")])


def _file_problem(path: Path, what: str, fix: str) -> Problem:
    return Problem(file=str(path), line=1, where="", what=what, fix=fix)


def read_engines(settings: Settings) -> dict[str, EngineProfile]:
    """The engine profiles of the file that the settings name; none where they name none.

    Raises:
        InvalidFile: With every problem found.
        OSError: If the file cannot be read.
    """
    if settings.engines is None:
        return {}
    file = str(settings.engines)
    return parse_profiles(decode_toml(read_file(settings.engines), file), file)


def read_catalog(settings: Settings, engines: Mapping[str, EngineProfile] | None = None) -> Catalog:
    """The shipped catalog, the engines over it, and the user's file over both.

    Raises:
        InvalidFile: With every problem found.
        OSError: If a file cannot be read.
    """
    return read_catalog_source(settings, engines).load()


def read_catalog_source(
    settings: Settings, engines: Mapping[str, EngineProfile] | None = None
) -> CatalogSource:
    """The texts of the catalog.

    Args:
        settings: They name the files.
        engines: The profiles, where they were read already.

    Raises:
        InvalidFile: With every problem found.
        OSError: If a file cannot be read.
    """
    shipped = resources.files("proxy.catalog").joinpath("models.toml").read_text(encoding="utf8")
    profiles = read_engines(settings) if engines is None else engines
    entries = [catalog_entry(profile, str(settings.engines)) for profile in profiles.values()]
    file = "catalog.toml" if settings.catalog is None else str(settings.catalog)
    user = None
    if settings.catalog is not None:
        user = decode_toml(read_file(settings.catalog), file)
    return CatalogSource(shipped, user, file, entries, settings.pass_unlisted_models)


def read_policies(settings: Settings, catalog: Catalog | None = None) -> Policies:
    """The policies of the file that the settings name; empty ones where they name none.

    Args:
        settings: They name the file.
        known: The models that calls may be rerouted to; None for whichever the file names.

    Raises:
        InvalidFile: With every problem found.
        OSError: If the file cannot be read.
    """
    if settings.policies is None:
        return Policies()
    raw, file = read_file(settings.policies), str(settings.policies)
    top = parse_toml(decode_toml(raw, file), file)
    policies = read(top)
    if catalog is not None and (unknown := list(unknown_models(top, catalog))):
        raise InvalidFile(unknown)
    return policies


def read_snapshot(settings: Settings) -> Snapshot:
    """All files, and the policies checked against the catalog; blocks.

    Raises:
        InvalidFile: With every problem found.
        OSError: If a file cannot be read.
    """
    engines = read_engines(settings)
    source = read_catalog_source(settings, engines)
    catalog = source.load()
    policies = read_policies(settings, catalog)
    return Snapshot(catalog, policies, upstreams_with_keys(catalog), engines, source)


def count_policies(policies: Policies) -> str:
    """The number of policies of each kind, such as ``2 budgets, 1 objective``."""
    entries = policies_by_kind(policies).items()
    counts = [quantity(len(listed), kind.noun) for kind, listed in entries if listed]
    return ", ".join(counts) or "no policies"


def upstreams_with_keys(catalog: Catalog) -> frozenset[str]:
    """The upstreams that have the key they need: no others may see a name nobody listed."""
    keys = upstream_keys(upstream.key_env for upstream in catalog.upstreams.values())
    return frozenset(
        name
        for name, upstream in catalog.upstreams.items()
        if (not upstream.key_env or upstream.key_env in keys)
        and is_package_installed(upstream.auth)
    )


def unknown_models(top: Node, catalog: Catalog) -> Iterator[Problem]:
    """A problem for each model that policies name and the catalog lacks."""
    for node in models(top):
        name = node.value
        if catalog.find(name) is None:
            is_ceiling = node.name.startswith("ceilings.")
            others = catalog.models if is_ceiling else [*catalog.models, *RESERVED_LEVELS]
            close = get_close_matches(name, others, n=1)
            fix = f"did you mean {close[0]}?" if close else _UNKNOWN
            yield node.problem(f"names {name}, which the catalog has not", fix)


def file_stamps(files: Sequence[Path]) -> FileStamps:
    """A stamp that differs once a file has changed."""
    return tuple(map(_file_stamp, files))


def _file_stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
