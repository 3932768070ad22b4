"""Saves the proof on small models across restarts: a file for each team and rule.

The files stand in the gateway's own folder, as the states are this process's own. After a kill the
calls of the last seconds are not counted; what cannot be read is begun anew, with the large model.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.fast_path.small_first.call_traits import TRAIT_NAMES
from proxy.fast_path.small_first.loss_bound import RATES
from proxy.fast_path.small_first.loss_control import LossControl

_log = logging.getLogger("thriftgate.fast_path")

#: Seconds between two looks for states that changed.
SAVE_INTERVAL_S: Final = 10.0
_MAX_FILES: Final = 1_000
_MAX_FILE_BYTES: Final = 32 * 1024 * 1024
#: Changes with what the numbers in a state mean.
_FORM: Final = blake2b(repr((RATES, TRAIT_NAMES)).encode(), digest_size=8).hexdigest()


class TeamControl(msgspec.Struct):
    """The state of a team under a rule, and how often both orders of its comparisons agreed."""

    control: LossControl
    agreements: int = 0
    pairs: int = 0


class StoredState(msgspec.Struct):
    """The content of a file."""

    form: str
    team: str
    rule: str
    state: TeamControl


#: Bytes after which the encoder lets the event loop run, which waits long for it else, and seconds.
_PAUSE_BYTES: Final = 64 * 1024
_PAUSE_S: Final = 0.0002
#: The parts of an encoded state that grow, while they are empty; a text has no bare quote.
_EMPTY_PARTS: Final = re.compile(rb'("features":|"pending":)\{\}')
_decode: Final = msgspec.json.Decoder(StoredState).decode


class StateFiles:
    """The files of one gateway."""

    def __init__(
        self, folder: Path, run: Callable[..., Awaitable[None]] = asyncio.to_thread
    ) -> None:
        """Keep files in a folder.

        Args:
            run: Runs a function on a thread.
        """
        self._folder = folder
        self._run = run
        self._saved: dict[tuple[str, str], tuple[int, int]] = {}

    def load(self) -> dict[tuple[str, str], TeamControl]:
        """The states by team and rule; what cannot be read is left out."""
        states = {}
        paths = sorted(self._folder.glob("*.json"))[:_MAX_FILES] if self._folder.is_dir() else []
        for path in paths:
            try:
                is_small = path.stat().st_size <= _MAX_FILE_BYTES
                stored = _decode(path.read_bytes()) if is_small else None
            except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.warning("The state of a small-first rule was not read: %s", error)
                continue
            if stored is not None and stored.form == _FORM:
                states[stored.team, stored.rule] = stored.state
        return states

    async def save(self, states: Mapping[tuple[str, str], TeamControl]) -> None:
        """Write the states that changed, and remove the files of those that are gone."""
        for key, state in list(states.items()):
            version = state.control.calls, state.control.verdicts
            if self._saved.get(key) == version:
                continue
            stored = StoredState(_FORM, *key, _copy(state))
            try:
                await self._run(_write, self._path(key), stored)
            except OSError as error:
                _log.warning("The state of a small-first rule was not stored: %s", error)
                return
            self._saved[key] = version
        for key in [key for key in self._saved if key not in states]:
            del self._saved[key]
            await self._run(self._path(key).unlink, missing_ok=True)

    def _path(self, key: tuple[str, str]) -> Path:
        name = blake2b("\0".join(key).encode(), digest_size=16).hexdigest()
        return self._folder / f"{name}.json"


def _copy(state: TeamControl) -> TeamControl:
    """A copy that stays as it is while calls go on; what never changes is shared."""
    control, model = state.control, state.control.model
    features = {
        name: replace(record, sums=[*record.sums], neighbours=[*record.neighbours])
        for name, record in model.features.items()
    }
    model = replace(
        model,
        features=features,
        products=[[*line] for line in model.products],
        by_loss=[*model.by_loss],
        weights=[*model.weights],
    )
    bound = replace(control.bound, totals=[*control.bound.totals])
    pending, recent = {**control.pending}, [*control.recent]
    control = replace(control, bound=bound, model=model, pending=pending, recent=recent)
    return replace(state, control=control)


def state_pieces(stored: StoredState) -> Iterator[bytes]:
    """The content of a file in small pieces: each keeps other threads waiting while it is made."""
    control, model = stored.state.control, stored.state.control.model
    parts: dict[bytes, Mapping[str, object]] = {
        b'"features":': model.features,
        b'"pending":': control.pending,
    }
    control = replace(control, model=replace(model, features={}), pending={})
    rest = replace(stored, state=replace(stored.state, control=control))
    for piece in _EMPTY_PARTS.split(msgspec.json.encode(rest)):
        yield piece
        if piece in parts:
            yield from _object_pieces(parts[piece])


def _object_pieces(values: Mapping[str, object]) -> Iterator[bytes]:
    """A JSON object, a piece for each of its values."""
    before = b"{"
    for name, value in values.items():
        yield before + msgspec.json.encode(name) + b":" + msgspec.json.encode(value)
        before = b","
    yield b"}" if values else b"{}"


def _write(path: Path, stored: StoredState) -> None:
    """Replace a file at once: a kill leaves the old one or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        written = 0
        for piece in state_pieces(stored):
            written += file.write(piece)
            if written >= _PAUSE_BYTES:
                written = 0
                time.sleep(_PAUSE_S)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
