"""One run of the command line: its consoles, its clock, and loaders of what the settings name.

If anything cannot be read, the command ends with the reason. Loaders are imported on first use:
help needs none, and the store and Redis take longer to import than most commands take to run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console

from proxy.cli.terminal import Terminal

if TYPE_CHECKING:
    from proxy.catalog.catalog import Catalog
    from proxy.settings import Settings
    from proxy.store.store import Store
    from slo.policies.file import Policies

# Names that people chose are printed, and none of them is markup.
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
out = Console(highlight=False, markup=False, emoji=False)


def settings() -> Settings:
    """The settings of this process."""
    from proxy.errors import OperatorError
    from proxy.settings import read

    try:
        return read()
    except OperatorError as error:
        fail(str(error))


def catalog(chosen: Settings | None = None) -> Catalog:
    """The catalog that the settings name; without settings, those of this process."""
    from proxy.configuration import read_catalog
    from slo.toml.problems import InvalidFile

    try:
        return read_catalog(chosen or settings())
    except InvalidFile as bad:
        fail(str(bad))
    except OSError as error:
        fail(
            f"The catalog cannot be read: {_file_problem(error)}."
            " THRIFTGATE_CATALOG and THRIFTGATE_ENGINES name its files."
        )


def shipped_catalog() -> Catalog:
    """The catalog as it is shipped, whatever this process's settings say."""
    from proxy.configuration import read_catalog
    from proxy.settings import read

    return read_catalog(read({}))


def policies(chosen: Settings, known_models: Catalog | None = None) -> Policies:
    """The policies that the settings name, their models checked against a catalog if given."""
    from proxy.configuration import read_policies
    from slo.toml.problems import InvalidFile

    try:
        if chosen.redis_url:
            from proxy.services.budgets.counters import check_counters

            check_counters(chosen)
        return read_policies(chosen, known_models)
    except InvalidFile as bad:
        fail(str(bad))
    except ValueError as error:
        fail(f"THRIFTGATE_REDIS_URL: {error}")
    except OSError as error:
        fail(
            f"The policies cannot be read: {_file_problem(error)}. THRIFTGATE_POLICIES names them."
        )


def _file_problem(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no file {error.filename}"
    return f"{error.filename}: {error.strerror}"


def store(chosen: Settings | None = None) -> Store:
    """The store that the settings name, opened and migrated."""
    chosen = chosen or settings()
    from proxy.store.store import open_store

    with explain_unopened_store(chosen, fail):
        return open_store(chosen)


@contextmanager
def explain_unopened_store(chosen: Settings, refuse: Callable[[str], NoReturn]) -> Iterator[None]:
    """A block that opens the store; where it cannot be opened, ``refuse`` is called with why."""
    from proxy.cli.storage_checks import folder_problem
    from proxy.errors import OperatorError
    from proxy.store.errors import StoreError

    try:
        yield
    except ValueError as error:
        refuse(f"THRIFTGATE_DATABASE_URL: {error}")
    except OperatorError as error:
        refuse(str(error))
    except StoreError as error:
        refuse(folder_problem(chosen.folder) or f"The database cannot be reached: {error}")
    except OSError as error:
        refuse(folder_problem(chosen.folder) or f"THRIFTGATE_FOLDER cannot be written: {error}")


def now() -> float:
    """Seconds since the epoch."""
    return time.time()  # noqa: TID251 - the command line is a person's clock


def fail(message: str) -> NoReturn:
    """Print what is wrong and end the command."""
    err.print(message, style="red", soft_wrap=True)
    raise typer.Exit(1)


terminal = Terminal(store, now, out, fail, err)
