"""The state of a feature's planning: its mode, its layout, its suspension."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

EVERY_FAMILY: Final = ""
"""The family of what holds for all families of a feature."""

_FAMILY: Final = re.compile(r"[a-z]+(?:-[a-z]+)*", re.IGNORECASE)


class PlanningMode(StrEnum):
    """The steps that planning may take on a feature's prompts."""

    OFF = "off"  #: Nothing: they are sent unmodified.
    OBSERVE = "observe"  #: Lossless steps; moves of text are only proposed.
    APPLY = "apply"  #: Declared and approved moves as well.
    AUTO = "auto"  #: Proposals approve themselves, under the guard.


class LayoutScope(msgspec.Struct, frozen=True, order=True):
    """The scope of a layout: a feature of a team on one family of models."""

    team: str
    feature: str
    family: str = EVERY_FAMILY

    @property
    def all_families(self) -> "LayoutScope":
        """All families of the feature."""
        return LayoutScope(self.team, self.feature)


@lru_cache(1_024)
def model_family(model: str) -> str:
    """The family of a model, whose layouts its calls have; "" for a name without one.

    Args:
        model: The model's name at its upstream, such as ``claude-sonnet-5-5``.
    """
    match = _FAMILY.match(model.rpartition("/")[2])
    return match[0].lower() if match else EVERY_FAMILY


class FeatureState(msgspec.Struct, frozen=True, kw_only=True):
    """The planning state of a scope; times are in seconds since the epoch.

    Attributes:
        mode: None where the place goes by its feature's.
        version: The layout approved last; 0 for none.
        former: The one that holds until ``active_from``; 0 for none.
        active_from: From when on conversations begin with ``version``.
        measured_from: Since when its savings are measured.
        suspended: Reason for its suspension; "" while there is none.
    """

    mode: PlanningMode | None = None
    version: int = 0
    former: int = 0
    active_from: float = 0.0
    measured_from: float = 0.0
    suspended: str = ""
    suspended_at: float = 0.0
    changed_by: str = ""
    changed_at: float = 0.0

    @property
    def is_off(self) -> bool:
        """True if prompts are sent unmodified."""
        return self.mode is PlanningMode.OFF or bool(self.suspended)

    def layout_version(self, now: float) -> int:
        """The version for a conversation that begins now; 0 for none."""
        if self.suspended or self.mode not in {PlanningMode.APPLY, PlanningMode.AUTO}:
            return 0
        return self.version if now >= self.active_from else self.former


class FeatureStates(msgspec.Struct, frozen=True):
    """All features' planning states, at one moment.

    Attributes:
        places: By place; a place that is not here goes by its feature, a feature by the default.
        moves: The layouts that any place may apply, as they were proposed.
        mode: Mode where nobody has chosen one.
    """

    changes: int = -1
    places: Mapping[LayoutScope, FeatureState] = {}
    moves: Mapping[tuple[LayoutScope, int], str] = {}
    mode: PlanningMode = PlanningMode.OBSERVE

    def of(self, place: LayoutScope) -> FeatureState:
        """The state in force for the scope; its mode is never None."""
        whole = self.places.get(place.all_families, _DEFAULT)
        own = self.places.get(place, _DEFAULT)
        if own is _DEFAULT and whole is _DEFAULT:
            return _UNCHOSEN[self.mode]
        held = own if own.suspended else whole
        return msgspec.structs.replace(
            own,
            mode=own.mode or whole.mode or self.mode,
            suspended=held.suspended,
            suspended_at=held.suspended_at,
            measured_from=max(own.measured_from, whole.measured_from),
        )


_DEFAULT: Final = FeatureState()
#: States of a place for which nobody has chosen anything.
_UNCHOSEN: Final = {mode: FeatureState(mode=mode) for mode in PlanningMode}
