"""Receipts as rows of the table ``calls``, and back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.records.prompt_segments import PromptSegments
from proxy.records.receipt import Outcome, PhasesFrom, Receipt
from proxy.store.sql import schema
from proxy.store.sql.timestamps import micros, seconds
from slo.usage import Usage

COLUMNS = tuple(column.name for column in schema.calls.columns)
"""The names of a row's values, in order."""

_NO_USAGE = (None,) * len(schema.BUCKETS)
_NULLABLE = {column.name for column in schema.calls.columns if column.nullable}
_SILENT = {
    field.name: field.default
    for field in msgspec.structs.fields(Receipt)
    if field.name in _NULLABLE and field.default is not None
}
"""Values of a receipt for columns that are null in a row, where they are not None."""

_TIMES = (*schema.PHASES, "gpu_seconds")

_MAX_COUNT = 1 << 50  # tokens, nano-dollars (a million dollars) or microseconds of one call
_encode_json = msgspec.json.Encoder().encode
_decode_notes = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_segments = msgspec.json.Decoder(PromptSegments).decode


def row_from_receipt(receipt: Receipt) -> tuple[Any, ...]:
    """The values of a receipt in the order of ``COLUMNS``.

    Raises:
        OverflowError: A number is beyond anything one call can be; summed, it would spoil the
            rollups.
    """
    usage = _NO_USAGE if receipt.usage is None else msgspec.structs.astuple(receipt.usage)
    ttft = _optional_micros(receipt.ttft)
    duration = micros(receipt.duration)
    caching = (receipt.read_saved_nanos, receipt.write_extra_nanos)
    saved = (receipt.compaction_nanos, receipt.planning_nanos, *caching)
    money = (receipt.list_nanos, receipt.cost_nanos, receipt.miss_nanos, *saved)
    engine = _engine_values(receipt)
    counts = (*engine, receipt.expected_read, receipt.miss_tokens)
    for number in (*usage, *money, *counts, ttft, duration):
        if number is not None and not -_MAX_COUNT < number < _MAX_COUNT:
            raise OverflowError(f"{number} cannot be a number of tokens, dollars or seconds")
    return (
        *_request_values(receipt),
        *usage,
        int(receipt.estimated),
        receipt.list_nanos,
        receipt.cost_nanos,
        ttft,
        duration,
        micros(receipt.overhead),
        receipt.fingerprint,
        receipt.upstream_id,
        _encode_json(receipt.notes).decode() if receipt.notes else "[]",
        *_decision_values(receipt),
        *engine[:4],
        receipt.phases_from.value or None,
        *engine[4:],
        *caching,
        None if receipt.segments is None else _encode_json(receipt.segments).decode(),
    )


def _engine_values(receipt: Receipt) -> tuple[int | None, ...]:
    """Numbers that only self-hosted engines have: phases, draft tokens, GPU time."""
    return (
        *(_optional_micros(getattr(receipt, phase)) for phase in schema.PHASES),
        receipt.draft_tokens,
        receipt.accepted_tokens,
        _optional_micros(receipt.gpu_seconds),
    )


def _optional_micros(value: float | None) -> int | None:
    return None if value is None else micros(value)


def _request_values(receipt: Receipt) -> tuple[Any, ...]:
    """Values of the request, of who sent it, and of how it ended."""
    return (
        receipt.call_id,
        receipt.attempt,
        int(receipt.final),
        micros(receipt.started),
        receipt.team,
        receipt.key_id,
        receipt.feature,
        receipt.user,
        receipt.endpoint,
        receipt.model,
        receipt.route,
        receipt.upstream,
        int(receipt.streamed),
        receipt.status,
        receipt.outcome.value,
        receipt.error,
    )


def _decision_values(receipt: Receipt) -> tuple[Any, ...]:
    """Values of planning and decisions, their outcome, and the provider's id of the request.

    All of them are null where nothing was.
    """
    return (
        receipt.conversation or None,
        receipt.arm or None,
        receipt.layout or None,
        receipt.expected_read,
        receipt.miss or None,
        receipt.miss_detail or None,
        receipt.miss_tokens,
        receipt.miss_nanos,
        receipt.reroute_reason or None,
        receipt.compaction or None,
        receipt.compaction_why or None,
        int(receipt.compacted) or None,
        receipt.tokens_before,
        receipt.tokens_after,
        int(receipt.reset) or None,
        receipt.compaction_nanos,
        receipt.needed or None,
        receipt.lost or None,
        receipt.compacted_messages,
        receipt.planning_nanos,
        receipt.upstream_request_id or None,
        receipt.unplanned_why or None,
    )


def receipt_from_row(values: Sequence[Any], prompt: str | None = None) -> Receipt:
    """The receipt in a row of ``COLUMNS``; seconds come back in whole microseconds."""
    named = dict(zip(COLUMNS, values, strict=True))
    tokens = {bucket: named.pop(bucket) for bucket in schema.BUCKETS}
    user = named.pop("user_hash")
    silent = {name: nothing for name, nothing in _SILENT.items() if named[name] is None}
    return Receipt(
        **{
            **named,
            **silent,
            "final": bool(named["final"]),
            "streamed": bool(named["streamed"]),
            "estimated": bool(named["estimated"]),
            "compacted": bool(named["compacted"]),
            "reset": bool(named["reset"]),
            "started": seconds(named["started"]),
            "ttft": None if named["ttft"] is None else seconds(named["ttft"]),
            "duration": seconds(named["duration"]),
            "overhead": seconds(named["overhead"]),
            "user": user,
            "outcome": Outcome(named["outcome"]),
            **{name: seconds(named[name]) for name in _TIMES if named[name] is not None},
            "phases_from": PhasesFrom(named["phases_from"] or ""),
            "usage": None if tokens["input"] is None else Usage(**tokens),
            "notes": _decode_notes(named["notes"]),
            "prompt": prompt,
            "segments": None if named["segments"] is None else _decode_segments(named["segments"]),
        }
    )
