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
_ERRORS = {Outcome.REFUSED, Outcome.FAILED, Outcome.BROKEN}


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
        "fingerprint": "ab" * 16,
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
    for each in receipts:
        second = int(each.started)
        key = (each.team, second // 86_400, each.feature, each.model, each.route, each.upstream)
        groups[*key, each.key_id, second // 900 * 900].append(each)
    return {key: _sums(group) for key, group in groups.items()}


def _sums(group: list[Receipt]) -> dict[str, int | None]:
    finals = [each for each in group if each.final]
    ttfts = [each.ttft for each in finals if each.ttft is not None]
    used = [each for each in group if each.usage is not None]
    return {
        "calls": len(finals),
        "attempts": len(group),
        "errors": sum(each.outcome in _ERRORS for each in finals),
        "estimated": sum(each.estimated for each in group),
        "unpriced": sum(
            each.cost_nanos is None and (each.usage is not None or each.outcome == Outcome.ANSWERED)
            for each in group
        ),
        **{
            bucket: sum(getattr(each.usage, bucket) for each in used)
            for bucket in msgspec.structs.asdict(Usage())
        },
        "list_nanos": _sum_of_known([each.list_nanos for each in group]),
        "cost_nanos": _sum_of_known([each.cost_nanos for each in group]),
        "ttft_sum": sum(round(ttft * 1e6) for ttft in ttfts),
        "ttft_count": len(ttfts),
        "duration_sum": sum(round(each.duration * 1e6) for each in finals),
        **{f"{phase}_sum": _micros(group, phase) for phase in _PHASES},
        "phases_count": sum(each.prefill is not None for each in group) or None,
        "draft_tokens": _sum_of_known([each.draft_tokens for each in group]),
        "accepted_tokens": _sum_of_known([each.accepted_tokens for each in group]),
        "gpu_seconds": _micros(group, "gpu_seconds"),
        **_savings(group),
    }


def _savings(group: list[Receipt]) -> dict[str, int | None]:
    """Sums of what was saved, and of what caches missed."""
    planned = [r for r in group if r.planning_nanos is not None and r.cost_nanos is not None]
    compacted = [r for r in group if r.compaction and r.outcome is not Outcome.FAILED]
    notes = [r for r in group if not r.compaction and r.compaction_why == "notes"]
    return {
        **{name: _sum_of_known([getattr(r, name) for r in group]) for name in _SUMMED_FIELDS},
        "planned": len(planned) or None,
        "planning_nanos": _sum_of_known([r.planning_nanos for r in planned]),
        "planned_cost_nanos": _sum_of_known([r.cost_nanos for r in planned if r.arm != "control"]),
        "compaction_nanos": _sum_of_known([r.compaction_nanos for r in compacted]),
        "notes_nanos": _sum_of_known([r.cost_nanos for r in notes]),
        "missed": sum(bool(r.miss) for r in group) or None,
    }


def _micros(group: list[Receipt], name: str) -> int | None:
    found = [getattr(each, name) for each in group]
    return _sum_of_known([None if value is None else round(value * 1e6) for value in found])


def _sum_of_known(nanos: list[int | None]) -> int | None:
    known = [each for each in nanos if each is not None]
    return sum(known) if known else None
