"""The state of supervised engines in files, so that other processes can read it.

A profile has a folder: ``state.json``, replaced as a whole at each change, ``lock``, and a log for
each replica. The supervisor holds the lock for its life and the kernel frees it at its end, also by
``kill -9``: a state whose lock is free is stale, whatever it says. So is one that is old, for a
supervisor writes it at least every half minute.
"""

import fcntl
import logging
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from proxy.engines.state.replica_report import ReplicaReport
from proxy.errors import OperatorError

_log = logging.getLogger("thriftgate")

_STATE: Final = "state.json"
_LOCK: Final = "lock"
_VERSION: Final = 1
#: Seconds between two reports where nothing changes, and after which a report is stale.
REPORT_INTERVAL_S: Final = 30.0
MAX_REPORT_AGE_S: Final = 100.0
#: Attempts to take the lock.
_ATTEMPTS: Final = 5
_ATTEMPT_DELAY_S: Final = 0.02
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def replace_private_file(path: Path, value: object) -> None:
    """Replace a file, as a whole, by a value as JSON; only its owner can read it.

    Raises:
        OSError: It cannot be written.
    """
    fresh = path.with_suffix(f".{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(fresh, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(value))
    fresh.replace(path)


class ChangeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The last rolling change of a profile.

    Attributes:
        since: Time it began, in seconds since the epoch.
        reason: The reason that replicas stay as they were; "" if none do.
    """

    since: float
    is_running: bool
    reason: str = ""


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """The last known state of a profile's replicas.

    Attributes:
        pid: The process that supervises them.
        started: Time it began, in seconds since the epoch.
        change: The last rolling change; None where there was none.
        is_running: True if the supervisor runs.
        written_at: Time of the last report, in seconds since the epoch.
    """

    profile: str
    pid: int
    started: float
    replicas: tuple[ReplicaReport, ...] = ()
    change: ChangeReport | None = None
    version: int = _VERSION
    is_running: bool = False
    written_at: float = 0.0

    def is_stale(self, now: float) -> bool:
        """True if its supervisor has ended, or no longer reports."""
        return not self.is_running or now - self.written_at > MAX_REPORT_AGE_S


def profile_folder(folder: Path, profile: str) -> Path:
    """The folder of a profile's state and logs.

    Raises:
        OperatorError: If the name cannot be that of a folder.
    """
    if not _PROFILE.fullmatch(profile):
        raise OperatorError(
            f"A profile's name has letters, digits and _ . - only, and is not {profile!r}."
        )
    return folder / "engines" / profile


class EngineStateFile:
    """Writes the state of a profile whose lock it holds.

    Attributes:
        change: The last rolling change, which the next ``write`` includes.
    """

    def __init__(self, folder: Path, profile: str, started: float) -> None:
        self._path = folder / _STATE
        self._profile = profile
        self._started = started
        self._failed = False
        self.change: ChangeReport | None = None

    def write(self, replicas: list[ReplicaReport]) -> None:
        """Replace the state; where that fails it is logged once, and supervision goes on."""
        state = EngineState(
            profile=self._profile,
            pid=os.getpid(),
            started=self._started,
            replicas=tuple(replicas),
            change=self.change,
        )
        try:
            replace_private_file(self._path, state)
        except OSError as error:
            if not self._failed:
                _log.warning("The engines' state %s cannot be written: %s", self._path, error)
            self._failed = True
        else:
            self._failed = False


@contextmanager
def locked_profile(folder: Path) -> Iterator[None]:
    """A block in which this process alone supervises the profile of this folder.

    Raises:
        OperatorError: If another process does.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperatorError(f"The folder {folder} cannot be written: {error.strerror}.") from error
    try:
        if not _take(lock):
            raise OperatorError(
                f"The engines of {folder.name} are served already."
                " `thriftgate engine status` shows them."
            )
        yield
    finally:
        os.close(lock)


def read_engine_states(folder: Path) -> list[EngineState]:
    """The states of all profiles under a data folder, by name; unreadable ones are left out."""
    states = []
    for path in sorted((folder / "engines").glob(f"*/{_STATE}")):
        with suppress(OSError, msgspec.DecodeError):
            state = msgspec.json.decode(path.read_bytes(), type=EngineState)
            states.append(
                msgspec.structs.replace(
                    state,
                    is_running=is_supervised(path.parent),
                    written_at=path.stat().st_mtime,
                )
            )
    return states


def is_supervised(folder: Path) -> bool:
    """True if a supervisor holds the lock of a profile's folder."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Shared, so that two readers do not take each other for a supervisor.
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _take(lock: int) -> bool:
    """True once the lock is ours; readers hold it for a moment only."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_ATTEMPT_DELAY_S)
        else:
            return True
    return False
