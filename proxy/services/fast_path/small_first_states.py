"""Saves the proof on small models across restarts: a file for each team and rule.

The files stand in the gateway's own folder, as the states are this process's own. After a kill the
calls of the last seconds are not counted; what cannot be read is begun anew, with the large model.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

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


class _StoredState(msgspec.Struct):
    """The content of a file."""

    form: str
    team: str
    rule: str
    state: TeamControl


_decode: Final = msgspec.json.Decoder(_StoredState).decode


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
            stored = _StoredState(_FORM, *key, _copy(state))
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


def _encode(stored: _StoredState) -> bytes:
    """The content of a file, encoded in small parts: meanwhile the encoder stops all threads."""
    state = stored.state
    control, model = state.control, state.control.model
    features = {name: _encode_part(record) for name, record in model.features.items()}
    pending = {call_id: _encode_part(call) for call_id, call in control.pending.items()}
    fitted = {**asdict(model), "features": features}
    controlled = {**asdict(control), "model": fitted, "pending": pending}
    return msgspec.json.encode(
        {**asdict(stored), "state": {**asdict(state), "control": controlled}}
    )


def _encode_part(part: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(part))


def _write(path: Path, stored: _StoredState) -> None:
    """Replace a file at once: a kill leaves the old one or the new one."""
    content = _encode(stored)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
