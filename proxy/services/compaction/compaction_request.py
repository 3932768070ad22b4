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

    A caller may try a feature for which no mode is set; what a person chose, or the live
    quality check stepped back to, it may only go below.

    Args:
        header: Value of ``x-thriftgate-compaction``; "" for nothing.
        default: The mode of features without one of their own.
    """
    mode, directive = setting.effective_mode(default), header.strip().lower()
    if not directive:
        return CompactionRequest(mode=mode) if mode is not CompactionMode.OFF else _NOTHING
    if directive == _OFF:
        return _NOTHING
    if directive not in {_DRY, _FORCE}:
        wrong = directive[:_MAX_QUOTED_CHARS]
        fault = f"x-thriftgate-compaction is off, dry-run or force, not {wrong!r}"
        return CompactionRequest(notes=(f"{fault}: the conversation was sent unmodified",))
    if mode is CompactionMode.OFF and (directive == _DRY or setting.mode is None):
        mode = CompactionMode.FACTS
    return CompactionRequest(mode=mode, is_dry=directive == _DRY, force=directive == _FORCE)
