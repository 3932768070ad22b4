"""Receipts made up for tests, and the sums the rollups must show for them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from proxy.records.receipt import Outcome, PhasesFrom, Receipt
from slo.usage import Usage

START = 1_790_000_000.0
_PHASES = ("queue", "prefill", "decode", "transfer")
_SUMMED_FIELDS = (
    "read_saved_nanos",
    "write_extra_nanos",
    "expected_read",
    "miss_tokens",
    "miss_nanos",
)
_ERRORS = {Outcome.FAILED, Outcome.BROKEN}


def a_receipt(n: int = 0, **changes: Any) -> Receipt:
    """The nth receipt; some teams, models and outcomes come again and again."""
    fields: dict[str, Any] = {
        "call_id": f"call_{int(START * 1000) + n * 1000:012x}7{n:019x}",
        "started": START + n,
        "team": f"team_{n % 2}",
        "key_id": f"key_{n % 3}",
        "feature": ("", "support", "coding")[n % 3],
        "user": "5f" * 16,
        "endpoint": "chat/completions",
        "model": f"model-{n % 2}",
        "route": f"lab/model-{n % 2}",
        "upstream": "lab",
        "streamed": n % 2 == 1,
        "status": 200,
        "outcome": Outcome.ANSWERED,
        "usage": Usage(input=100 + n, cache_read=1024, write_5m=7, output=20, reasoning=3),
        "list_nanos": 5_000_000 + n,
        "cost_nanos": 4_000_000 + n,
        "ttft": 0.25,
        "duration": 1.5,
        "overhead": 0.0004,
        "fingerprint": f"{n:032x}",
        "upstream_id": f"chatcmpl-{n}",
        "notes": ("dropped logit_bias",) if n % 5 == 0 else (),
    }
    return Receipt(**(fields | changes))


def an_engine_receipt(n: int = 0, **changes: Any) -> Receipt:
    """The nth receipt, of a self-hosted engine that reports phases and draft tokens."""
    phases = {"queue": 0.25, "prefill": 0.125 * n, "decode": 0.75, "transfer": 0.0625}
    drafts = {"draft_tokens": 40 + n, "accepted_tokens": 30, "gpu_seconds": 0.5}
    return a_receipt(n, **({"phases_from": PhasesFrom.ENGINE} | phases | drafts | changes))


def rolled_up(receipts: Iterable[Receipt]) -> dict[tuple[Any, ...], dict[str, int | None]]:
    """The rollups that belong to receipts: for each key the sums over them, by plain arithmetic."""
    groups: dict[tuple[Any, ...], list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        second = int(receipt.started)
        key = (
            receipt.team,
            second // 86_400,
            receipt.feature,
            receipt.model,
            receipt.route,
            receipt.upstream,
        )
        groups[*key, receipt.key_id, second // 900 * 900].append(receipt)
    return {key: _sums(group) for key, group in groups.items()}


def _sums(group: list[Receipt]) -> dict[str, int | None]:
    finals = [receipt for receipt in group if receipt.final]
    ttfts = [receipt.ttft for receipt in finals if receipt.ttft is not None]
    used = [receipt for receipt in group if receipt.usage is not None]
    return {
        "calls": len(finals),
        "attempts": len(group),
        "errors": sum(receipt.outcome in _ERRORS for receipt in finals),
        "estimated": sum(receipt.estimated for receipt in group),
        "unpriced": sum(
            receipt.cost_nanos is None
            and (receipt.usage is not None or receipt.outcome == Outcome.ANSWERED)
            for receipt in group
        ),
        **{
            bucket: sum(getattr(receipt.usage, bucket) for receipt in used)
            for bucket in msgspec.structs.asdict(Usage())
        },
        "list_nanos": _sum_of_known([receipt.list_nanos for receipt in group]),
        "cost_nanos": _sum_of_known([receipt.cost_nanos for receipt in group]),
        "ttft_sum": sum(round(ttft * 1e6) for ttft in ttfts),
        "ttft_count": len(ttfts),
        "duration_sum": sum(round(receipt.duration * 1e6) for receipt in finals),
        **{f"{phase}_sum": _micros(group, phase) for phase in _PHASES},
        "phases_count": sum(receipt.prefill is not None for receipt in group) or None,
        "draft_tokens": _sum_of_known([receipt.draft_tokens for receipt in group]),
        "accepted_tokens": _sum_of_known([receipt.accepted_tokens for receipt in group]),
        "gpu_seconds": _micros(group, "gpu_seconds"),
        **_savings(group),
    }


def _savings(group: list[Receipt]) -> dict[str, int | None]:
    """Sums of what was saved, and of what caches missed."""
    planned = [r for r in group if r.planning_nanos is not None and r.cost_nanos is not None]
    compacted = [r for r in group if r.compaction and r.outcome is not Outcome.FAILED]
    return {
        **{name: _sum_of_known([getattr(r, name) for r in group]) for name in _SUMMED_FIELDS},
        "planned": len(planned) or None,
        "planning_nanos": _sum_of_known([r.planning_nanos for r in planned]),
        "planned_cost_nanos": _sum_of_known([r.cost_nanos for r in planned if r.arm != "control"]),
        "compaction_nanos": _sum_of_known([r.compaction_nanos for r in compacted]),
        "missed": sum(bool(r.miss) for r in group) or None,
    }


def _micros(group: list[Receipt], name: str) -> int | None:
    amounts = [getattr(receipt, name) for receipt in group]
    return _sum_of_known([None if value is None else round(value * 1e6) for value in amounts])


def _sum_of_known(nanos: list[int | None]) -> int | None:
    amounts = [amount for amount in nanos if amount is not None]
    return sum(amounts) if amounts else None
