"""Saves the proof on small models across restarts: the state of each team under each rule."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from proxy.fast_path.small_first.call_traits import TRAIT_NAMES
from proxy.fast_path.small_first.loss_bound import RATES
from proxy.fast_path.small_first.loss_control import LossControl
from proxy.services.fast_path.state_files import StateFiles, StateForm

#: The parts of an encoded state that grow, while they are empty; a text has no bare quote.
_EMPTY_PARTS: Final = re.compile(rb'("features":|"pending":)\{\}')


class TeamControl(msgspec.Struct):
    """The state of a team under a rule, and how often both orders of its comparisons agreed."""

    control: LossControl
    agreements: int = 0
    pairs: int = 0


def small_first_files(
    folder: Path, run: Callable[..., Awaitable[None]] = asyncio.to_thread
) -> StateFiles[TeamControl]:
    """The files of a gateway's states of small-first rules; one begun anew asks the large model."""
    form = StateForm(
        title="small-first rule",
        tag=blake2b(repr((RATES, TRAIT_NAMES)).encode(), digest_size=8).hexdigest(),
        read=msgspec.json.Decoder(TeamControl).decode,
        version=lambda state: (state.control.calls, state.control.verdicts),
        copy=_copy,
        pieces=state_pieces,
    )
    return StateFiles(folder, form, run)


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


def state_pieces(state: TeamControl) -> Iterator[bytes]:
    """The JSON of a state in small pieces: each keeps other threads waiting while it is made."""
    control, model = state.control, state.control.model
    parts: dict[bytes, Mapping[str, object]] = {
        b'"features":': model.features,
        b'"pending":': control.pending,
    }
    control = replace(control, model=replace(model, features={}), pending={})
    rest = msgspec.json.encode(replace(state, control=control))
    for piece in _EMPTY_PARTS.split(rest):
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
