"""The compaction settings of each feature, as values."""

from collections.abc import Mapping
from typing import Final

import msgspec

from compaction.policy import CompactionMode


class FeatureSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a feature; times are in seconds since the epoch.

    Attributes:
        mode: Mode that a person chose; None where nobody did.
        keep_turns: The last turns that stay unmodified; None for the usual.
        target: Tokens a prompt is to come down to; None for as far as facts go by themselves.
        stepped: The gentler mode that the live quality check stepped back to; None where it did
            not.
        why: Finding of it; "" where there is none.
        stepped_at: Time of that; 0 where it did not.
        measured_from: Since when its proof counts.
    """

    mode: CompactionMode | None = None
    keep_turns: int | None = None
    target: int | None = None
    stepped: CompactionMode | None = None
    why: str = ""
    stepped_at: float = 0.0
    measured_from: float = 0.0
    changed_by: str = ""
    changed_at: float = 0.0

    def effective_mode(self, default: CompactionMode) -> CompactionMode:
        """The mode in force.

        Args:
            default: The mode of features without a chosen mode.
        """
        return self.stepped or self.mode or default


_NOTHING: Final = FeatureSettings()


class CompactionDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults where nobody chose.

    Attributes:
        share: The part of all conversations that is sent unmodified, to compare with.
        stake: Nano-dollars that compacting may cost a feature before it earned them back.
    """

    mode: CompactionMode = CompactionMode.OFF
    share: float = 0.05
    stake: int = 10_000_000


class SettingsSnapshot(msgspec.Struct, frozen=True):
    """The settings of all features at one moment.

    Attributes:
        unlisted: Settings of all other features.
    """

    changes: int = -1
    features: Mapping[tuple[str, str], FeatureSettings] = {}
    unlisted: FeatureSettings = _NOTHING

    def of(self, team: str, feature: str) -> FeatureSettings:
        """The settings of a feature."""
        return self.features.get((team, feature), self.unlisted)
