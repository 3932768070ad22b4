"""Compaction left to the provider: asked for where the caller does not; pure."""

from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.native_compaction import request_native_compaction
from proxy.records.call import Call
from proxy.records.compaction_result import CompactionResult, passthrough_result
from proxy.records.compaction_settings import FeatureSettings

#: Tokens of prompt from which on a provider compacts, unless the feature names a target.
#: Source: Anthropic, context editing: its own default (2026-09).
_TRIGGER: Final = 100_000
#: Tool results that stay, unless the feature says so. Source: the same.
_KEEP: Final = 3
_MODE: Final = "native"


def native(call: Call, route: Route, setting: FeatureSettings, *, is_dry: bool) -> CompactionResult:
    """The call with its provider's own compaction asked for, or why it goes as it came.

    Args:
        call: The call as it came.
        route: Where it goes.
        setting: What holds for its feature: its target is where compaction begins.
        is_dry: Whether it is sent as it came.
    """
    asked = request_native_compaction(
        call.endpoint,
        call.body,
        route,
        trigger=setting.target or _TRIGGER,
        keep=_KEEP if setting.keep_turns is None else setting.keep_turns,
    )
    if isinstance(asked, str):
        return msgspec.structs.replace(passthrough_result(_MODE, "native"), notes=(asked,))
    if is_dry:
        return passthrough_result(_MODE, "dry_run")
    sent = msgspec.structs.replace(call, body=asked.body)
    return CompactionResult(mode=_MODE, why="asked", sent=sent, notes=(asked.note,))
