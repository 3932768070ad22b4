"""Checks of the machine: room and rights in ``THRIFTGATE_FOLDER``, open descriptors."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from proxy.api.connections.connection_limit import connections_of_address, connections_within

#: Bytes below which a disk is soon full: the journal alone may wait with some tens of MiB.
_LOW_SPACE_BYTES: Final = 1 << 30
#: Subfolder of the gateway's folder, so that simulated costs stay out of the real ledger.
SIMULATED_FOLDER: Final = "simulated"
#: File that ``serve --simulated`` locks in its folder.
SIMULATOR_LOCK: Final = "simulator.lock"
_PAGE_BYTES: Final = 4_096
_NAME: Final = "THRIFTGATE_FOLDER"
_FIX: Final = "give it to the user whom the gateway runs as, or name another folder"


def folder_problem(folder: Path) -> str:
    """Reason that nothing can be kept in the folder, and the fix; "" where all is well.

    It is tried in what is there, or where the folder would be made; nothing is left of that.
    """
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        return f"{_NAME}: {existing} is no folder; move it away, or name another"
    if why := _write_problem(existing):
        what = "cannot be written" if existing == folder else f"cannot be made in {existing}"
        return f"{_NAME}: {folder} {what}: {why}; {_FIX}"
    unwritable = next(_unwritable_contents(folder), "")
    return f"{_NAME}: {unwritable} cannot be written; {_FIX}" if unwritable else ""


def is_simulated(folder: Path) -> bool:
    """True for the folder of ``thriftgate serve --simulated``."""
    return (folder / SIMULATOR_LOCK).exists()


def low_space_warning(
    folder: Path, free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
) -> list[str]:
    """That little room is left for the folder, in a sentence; [] where there is enough.

    Args:
        free: Returns the bytes left where a path is.
    """
    left = free(_nearest_existing(folder))
    if left >= _LOW_SPACE_BYTES:
        return []
    warning = f"{left >> 20:,} MiB are left where {_NAME} is"
    return [
        f"{warning}; when nothing is left and the database takes no receipts, calls are refused"
    ]


def descriptor_counts(limit: int, max_calls: int, per_address: int) -> str:
    """The process's limit of open descriptors, and how many of them clients may take."""
    clients = connections_within(limit, max_calls)
    one = connections_of_address(per_address, clients)
    return (
        f"Open files: at most {limit:,}; clients may hold {clients:,} connections,"
        f" one address {one:,} of them."
    )


def low_descriptor_warning(limit: int, max_calls: int) -> list[str]:
    """A sentence that the limit of open descriptors is too low for the calls; [] if it is not."""
    if connections_within(limit, max_calls) >= max_calls:
        return []
    warning = f"at most {limit:,} files may be open, too few for THRIFTGATE_MAX_CALLS={max_calls}"
    fix = (
        "a call takes two. Raise the hard limit (LimitNOFILE in systemd, --ulimit nofile in"
        " Docker), or lower THRIFTGATE_MAX_CALLS"
    )
    return [f"{warning}: {fix}"]


def _nearest_existing(folder: Path) -> Path:
    """The folder, or what stands in its place; else the last of what leads to it."""
    whole = folder.absolute()
    return next((path for path in (folder, *whole.parents) if os.path.lexists(path)), whole)


def _unwritable_contents(folder: Path) -> Iterator[str]:
    """Files of the folder that cannot be written, which another user may have made."""
    journal, ledger = folder / "journal", folder / "thriftgate.db"
    if journal.exists() and _write_problem(journal):
        yield str(journal)
    if ledger.exists() and not (ledger.is_file() and os.access(ledger, os.W_OK)):
        yield str(ledger)


def _write_problem(folder: Path) -> str:
    """Reason that a page cannot be written in a folder; "" if it can."""
    try:
        with tempfile.TemporaryFile(dir=folder) as page:
            page.write(bytes(_PAGE_BYTES))
            page.flush()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""
