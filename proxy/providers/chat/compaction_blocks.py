"""Anthropic's own compaction as chat bodies carry it: its blocks, its fields, the betas they need.

::

    context_management   edits: clear_tool_uses …, clear_thinking …    context-management-2025-06-27
                         edits: compact_20260112                       compact-2026-01-12
    compaction           a summary in place of an answer               compact-2026-09-04
    a compaction block   where no edit declares it: signed by the latter, else by the former

Source: Anthropic, context editing, compaction at a token threshold and on demand (2026-09);
anthropic 2.11.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import (
    ChatBody,
    invalid_parameter,
    is_given,
    unsupported_parameter,
)
from proxy.providers.lenient import UNREADABLE, decode_or

HEADER: Final = "anthropic-beta"
#: The edit that writes a summary and goes on; it is the only one with a beta of its own.
COMPACT: Final = "compact_20260112"
#: Tokens below which that edit cannot be told to act.
MIN_TRIGGER_TOKENS: Final = 50_000

_EDITING: Final = "context-management-2025-06-27"
_THRESHOLD: Final = "compact-2026-01-12"
_ON_DEMAND: Final = "compact-2026-09-04"
_MARK: Final = b'"compaction"'


class _Edit(msgspec.Struct, frozen=True):
    type: str


class _Management(msgspec.Struct, frozen=True):
    edits: list[_Edit] = []


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    signature: str | None = None


_management = msgspec.json.Decoder(_Management).decode
_block = msgspec.json.Decoder(_Block).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


def is_compaction(block: object) -> bool:
    """True if this is a compaction block, as raw JSON."""
    return isinstance(block, Raw) and _MARK in bytes(block) and _read(block).type == "compaction"


def compaction_fields(request: ChatBody) -> dict[str, Raw]:
    """The fields of a Messages body that ask for compaction, each as the caller wrote it."""
    fields = {}
    if is_given(request.context_management):
        _edits(request)
        fields["context_management"] = request.context_management
    if is_given(request.compaction):
        try:
            _object(request.compaction)
        except UNREADABLE:
            raise invalid_parameter(
                "compaction", "compaction must be an object with a type."
            ) from None
        fields["compaction"] = request.compaction
    if len(fields) > 1:
        raise unsupported_parameter(
            "compaction",
            "This model compacts either on demand or by context_management: leave one out.",
        )
    return fields


def betas(request: ChatBody) -> tuple[str, ...]:
    """The beta features that the body needs, each once."""
    kinds = _edits(request) if is_given(request.context_management) else None
    needed = []
    if kinds is not None and kinds != {COMPACT}:
        needed.append(_EDITING)
    if kinds is not None and COMPACT in kinds:
        return (*needed, _THRESHOLD)
    if is_given(request.compaction):
        needed.append(_ON_DEMAND)
    signed = (bool(_read(raw).signature) for raw in _blocks(request))
    needed += [_ON_DEMAND if is_signed else _THRESHOLD for is_signed in signed]
    return tuple(dict.fromkeys(needed))


def merge_betas(always: Mapping[str, str], caller: Mapping[str, str], needed: Iterable[str]) -> str:
    """The beta features to ask for: the operator's and the caller's own, and those needed.

    Args:
        always: The headers of the upstream, in any case; a request's own go in their place.
        caller: The caller's headers, names in lower case.
    """
    operator = {name.lower(): value for name, value in always.items()}.get(HEADER, "")
    features = f"{operator},{caller.get(HEADER, '')}".split(",")
    return ",".join(dict.fromkeys([*filter(None, map(str.strip, features)), *needed]))


def applied_edits(management: object) -> dict[str, Any] | None:
    """An answer's ``context_management`` where it reports an edit; None where nothing was done."""
    if not isinstance(management, dict):
        return None
    edits = management.get("applied_edits")
    return management if isinstance(edits, list) and edits else None


def _edits(request: ChatBody) -> set[str]:
    """The kinds of edits that are asked for."""
    try:
        return {edit.type for edit in _management(request.context_management).edits}
    except UNREADABLE:
        raise invalid_parameter(
            "context_management", "context_management must be an object with edits, each of a type."
        ) from None


def _blocks(request: ChatBody) -> Iterable[Raw]:
    """The compaction blocks that the caller sends back."""
    for message in request.messages:
        yield from filter(is_compaction, message.thinking_blocks or ())


def _read(raw: Raw) -> _Block:
    return decode_or(_block, raw, _Block())
