"""Saves what a fast path has learnt across restarts: a file for each team and subject.

The files stand in the gateway's own folder, as the states are this process's own. After a kill the
calls of the last seconds are not counted; what cannot be read is begun anew.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

_log = logging.getLogger("thriftgate.fast_path")

T = TypeVar("T")

#: Seconds between two looks for states that changed.
SAVE_INTERVAL_S: Final = 10.0
_MAX_FILES: Final = 1_000
_MAX_FILE_BYTES: Final = 32 * 1024 * 1024
#: Bytes after which the encoder lets the event loop run, which waits long for it else, and seconds.
_PAUSE_BYTES: Final = 64 * 1024
_PAUSE_S: Final = 0.0002


class StateForm(msgspec.Struct, Generic[T], frozen=True):
    """The way in which states of one kind are written.

    Attributes:
        title: The kind for people, such as "small-first rule".
        tag: Changes with what the numbers in a state mean.
        read: Returns the state of its JSON; raises DecodeError where it is none.
        version: Returns what differs where a state changed.
        copy: Returns a state that stays as it is while calls go on.
        pieces: Yields the JSON of a state; runs on a thread, and each piece stops all others.
    """

    title: str
    tag: str
    read: Callable[[bytes], T]
    version: Callable[[T], Any]
    copy: Callable[[T], T]
    pieces: Callable[[T], Iterator[bytes]]


class _StoredState(msgspec.Struct):
    """The content of a file."""

    form: str
    team: str
    name: str
    state: msgspec.Raw


_decode: Final = msgspec.json.Decoder(_StoredState).decode


class StateFiles(Generic[T]):
    """The files of one kind of states of one gateway."""

    def __init__(
        self,
        folder: Path,
        form: StateForm[T],
        run: Callable[..., Awaitable[None]] = asyncio.to_thread,
    ) -> None:
        """Keep files in a folder.

        Args:
            run: Runs a function on a thread.
        """
        self._folder = folder
        self._form = form
        self._run = run
        self._saved: dict[tuple[str, str], Any] = {}

    def load(self) -> dict[tuple[str, str], T]:
        """The states by team and name; what cannot be read is left out."""
        states = {}
        paths = sorted(self._folder.glob("*.json"))[:_MAX_FILES] if self._folder.is_dir() else []
        for path in paths:
            try:
                is_small = path.stat().st_size <= _MAX_FILE_BYTES
                stored = _decode(path.read_bytes()) if is_small else None
                if stored is not None and stored.form == self._form.tag:
                    states[stored.team, stored.name] = self._form.read(bytes(stored.state))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.warning("The state of a %s was not read: %s", self._form.title, error)
        return states

    async def save(self, states: Mapping[tuple[str, str], T]) -> None:
        """Write the states that changed, and remove the files of those that are gone."""
        for key, state in list(states.items()):
            version = self._form.version(state)
            if self._saved.get(key) == version:
                continue
            copy = self._form.copy(state)
            try:
                await self._run(self._write, key, copy)
            except OSError as error:
                _log.warning("The state of a %s was not stored: %s", self._form.title, error)
                return
            self._saved[key] = version
        for key in [key for key in self._saved if key not in states]:
            del self._saved[key]
            await self._run(self._path(key).unlink, missing_ok=True)

    def _path(self, key: tuple[str, str]) -> Path:
        name = blake2b("\0".join(key).encode(), digest_size=16).hexdigest()
        return self._folder / f"{name}.json"

    def _write(self, key: tuple[str, str], state: T) -> None:
        """Replace a file at once: a kill leaves the old one or the new one."""
        path = self._path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            written = 0
            for piece in self._content(key, state):
                written += file.write(piece)
                if written >= _PAUSE_BYTES:
                    written = 0
                    time.sleep(_PAUSE_S)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def _content(self, key: tuple[str, str], state: T) -> Iterator[bytes]:
        """The content of a file in small pieces."""
        head = {"form": self._form.tag, "team": key[0], "name": key[1]}
        yield msgspec.json.encode(head).removesuffix(b"}") + b',"state":'
        yield from self._form.pieces(state)
        yield b"}"


async def save_repeatedly(
    files: StateFiles[T], states: Callable[[], Awaitable[Mapping[tuple[str, str], T]]]
) -> None:
    """Save the states that changed every few seconds, without end."""
    while True:
        await asyncio.sleep(SAVE_INTERVAL_S)
        await files.save(await states())
