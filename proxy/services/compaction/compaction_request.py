"""The compaction that a call's header and its feature's settings ask for; pure."""

from typing import Final

import msgspec

from compaction.policy import CompactionMode
from proxy.records.compaction_settings import FeatureSettings

#: Values that callers may send.
_OFF: Final = "off"
_DRY: Final = "dry-run"
_FORCE: Final = "force"
_MAX_QUOTED_CHARS: Final = 40


class CompactionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The compaction requested for a call.

    Attributes:
        mode: Limit of what compaction may do.
        is_dry: True if it is computed, and the call sent unmodified.
        force: True to compact at once, even where that does not pay.
        notes: Notes for the caller.
    """

    mode: CompactionMode = CompactionMode.OFF
    is_dry: bool = False
    force: bool = False
    notes: tuple[str, ...] = ()


_NOTHING: Final = CompactionRequest()


def parse_compaction_request(
    header: str, setting: FeatureSettings, default: CompactionMode
) -> CompactionRequest:
    """The compaction requested for a call.

    A caller may try a feature for which nobody chose a mode; what a person chose, or the live
    quality check stepped back to, it may only go below.

    Args:
        header: Value of ``x-thriftgate-compaction``; "" for nothing.
        setting: Settings of its feature.
        default: The mode of features for which nobody chose one.
    """
    mode, said = setting.effective_mode(default), header.strip().lower()
    if not said:
        return CompactionRequest(mode=mode) if mode is not CompactionMode.OFF else _NOTHING
    if said == _OFF:
        return _NOTHING
    if said not in {_DRY, _FORCE}:
        wrong = (
            f"x-thriftgate-compaction is off, dry-run or force, not {said[:_MAX_QUOTED_CHARS]!r}"
        )
        return CompactionRequest(notes=(f"{wrong}: the conversation was sent unmodified",))
    if mode is CompactionMode.OFF and (said == _DRY or setting.mode is None):
        mode = CompactionMode.FACTS
    return CompactionRequest(mode=mode, is_dry=said == _DRY, force=said == _FORCE)
