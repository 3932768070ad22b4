"""The documents of commands with ``--json``, one each; their field names stay.

Money is US dollars as a decimal text, with every digit that is known; null where no price is.
Moments are ISO 8601 in UTC. Rates are parts of one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import msgspec

from compaction.policy import CompactionMode
from dashboards.reports import Part, ReportPeriod, Spend, Times
from proxy.cli.compaction_tables import CompactionTotal, FeatureCompaction, compaction_total
from proxy.prefix.explain.reasons import FIXES
from proxy.prefix.guard import ArmTotals
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.records.compaction_settings import FeatureSettings
from proxy.records.feature_mode import FeatureState, LayoutScope
from proxy.records.receipt import dollars
from proxy.store.sql.ledger.compaction_receipts import CompactionTotals
from proxy.store.sql.ledger.control_arms import Comparison, MissSum
from proxy.store.sql.settings.layout_rows import Proposal, ProposalState
from proxy.store.sql.settings.layouts import UndecidedLayout

Document = dict[str, Any]


def usd(nanos: int | None) -> str | None:
    """Nano-dollars as US dollars in full; None for what is not known."""
    if nanos is None:
        return None
    return f"-{dollars(-nanos)}" if nanos < 0 else dollars(nanos)


def suggested_fix(reason: str) -> str:
    """The fix for misses of that reason; "" for a reason of another version."""
    return FIXES.get(reason, "")


def report(
    period: ReportPeriod,
    rows: Iterable[Spend],
    total: Iterable[Spend],
    names: Mapping[str, str],
    parts: Sequence[Part],
    times: Mapping[tuple[str, ...], Times] = MappingProxyType({}),
) -> Document:
    """The spend of a period, by team and those parts, and in all; null without calls.

    Args:
        total: The row of all teams; none without calls.
        times: Durations of calls, by the values of team and parts, and of all by ().
    """
    return {
        "first": period.first.isoformat(),
        "end": period.end.isoformat(),
        "zone": period.zone,
        "rows": [
            _owner(row.team or "", names)
            | {part: getattr(row, part) for part in parts}
            | _spend(row)
            | _times(times.get(row.values(("team", *parts))))
            for row in rows
        ],
        "total": next((_spend(row) | _times(times.get(())) for row in total), None),
    }


def misses(days: int, sums: Iterable[MissSum], names: Mapping[str, str]) -> Document:
    """Reasons for cache misses, by feature and reason."""
    return {
        "days": days,
        "misses": [
            _owner(miss.team, names)
            | {
                "feature": miss.feature,
                "reason": miss.reason,
                "calls": miss.calls,
                "tokens": miss.tokens,
                "cost_usd": usd(miss.nanos),
                "example": miss.example,
                "detail": miss.detail,
                "fix": suggested_fix(miss.reason),
            }
            for miss in sums
        ],
    }


def savings(
    days: int,
    comparisons: Iterable[Comparison],
    places: Sequence[FeatureCompaction],
    names: Mapping[str, str],
) -> Document:
    """The savings of planning by feature, and of compaction by feature and in all."""
    return {
        "days": days,
        "savings": [_comparison(comparison, names) for comparison in comparisons],
        "compaction": [
            _owner(feature.team, names)
            | {"feature": feature.feature, "stepped_back": feature.setting.why}
            | _compaction_sums(feature.sums)
            for feature in places
        ],
        "compaction_total": _compaction_document(compaction_total(places)),
    }


def proposals_document(
    waiting: Iterable[UndecidedLayout], names: Mapping[str, str]
) -> list[Document]:
    """Expected savings of layouts that wait for approval, in US dollars per 1,000 calls."""
    return [
        _owner(layout.place.team, names)
        | {
            "feature": layout.place.feature,
            "family": layout.place.family,
            "version": layout.version,
            "saves_usd_per_1k": usd(layout.nanos),
            "at_least": layout.is_early,
            "calls": layout.calls,
        }
        for layout in waiting
    ]


def _compaction_document(total: CompactionTotal) -> Document:
    return {
        "saved_usd": usd(total.nanos),
        "notes_usd": usd(total.notes_nanos),
        "features": total.features,
        "stepped_back": total.stepped_back,
        "stepped_back_share": total.share,
    }


def compactions(
    days: int,
    rows: Iterable[tuple[tuple[str, str], FeatureSettings, CompactionTotals | None]],
    names: Mapping[str, str],
    default: CompactionMode,
) -> Document:
    """The settings of features' compaction, and its totals of some days."""
    return {
        "days": days,
        "default_mode": default.value,
        "compactions": [
            _owner(place[0], names)
            | {
                "feature": place[1],
                "mode": setting.effective_mode(default).value,
                "chosen_mode": setting.mode.value if setting.mode is not None else None,
                "keep_turns": setting.keep_turns,
                "target_tokens": setting.target,
                "stepped_back": setting.why,
                "stepped_back_at": _iso_time(setting.stepped_at),
                "changed_by": setting.changed_by,
                "changed_at": _iso_time(setting.changed_at),
            }
            | _compaction_sums(totals)
            for place, setting, totals in rows
        ],
    }


def _compaction_sums(totals: CompactionTotals | None) -> Document:
    """The totals of compaction; zeros where nothing was called."""
    if totals is None:
        counts = ("calls", "compacted", "trimmed", "resets", "tokens_saved")
        return dict.fromkeys(counts, 0) | dict.fromkeys(
            ("saved_usd", "notes_usd", "lost_share", "control_lost_share")
        )
    return {
        "calls": totals.calls,
        "compacted": totals.compacted,
        "trimmed": totals.trimmed,
        "resets": totals.resets,
        "tokens_saved": totals.tokens_saved,
        "saved_usd": usd(totals.net_nanos),
        "notes_usd": usd(totals.notes_nanos),
        "lost_share": _rate(totals.lost, totals.needed),
        "control_lost_share": _rate(totals.control_lost, totals.control_needed),
    }


def features(
    rows: Iterable[tuple[LayoutScope, FeatureState, Sequence[Proposal]]], names: Mapping[str, str]
) -> Document:
    """The settings of features that have a mode, a layout or a proposal."""
    return {"features": [_feature(*row, names) for row in rows]}


def feature(
    place: LayoutScope,
    standing: FeatureState,
    proposals: Sequence[Proposal],
    names: Mapping[str, str],
) -> Document:
    """The settings of one feature, and each version of its layout."""
    return {
        **_feature(place, standing, proposals, names),
        "versions": [_version(proposal) for proposal in proposals],
    }


def saved_nanos(cost: int, part: float) -> int:
    """The estimated savings on calls that cost so much, in nano-dollars, as whole cents.

    Args:
        part: Share saved of the cost without planning, from below 0 to below 1.
    """
    return round(cost * part / (1 - part) / 1e7) * 10_000_000


def _owner(team: str, names: Mapping[str, str]) -> Document:
    return {"team": names.get(team, team), "team_id": team}


def _spend(row: Spend) -> Document:
    usage = row.usage
    return {
        "calls": row.calls,
        "errors": row.errors,
        "input_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cache_read,
        "hit_rate": _rate(usage.cache_read, usage.prompt_tokens),
        "output_tokens": usage.generated_tokens,
        "cost_usd": usd(row.cost_nanos),
        "cost_per_1k_calls_usd": usd(row.nanos_per_1k_calls),
        "list_cost_usd": usd(row.list_nanos),
        "idle_cost_usd": usd(row.idle_nanos),
        "estimated": row.estimated,
        "unpriced": row.unpriced,
    }


def _times(measured: Times | None) -> Document:
    """Seconds of the newest calls, and how many these are; null where none was timed."""
    times = measured or Times()
    return {
        "timed_calls": times.calls,
        "ttft_s": asdict(times.ttft),
        "duration_s": asdict(times.duration),
    }


def _comparison(comparison: Comparison, names: Mapping[str, str]) -> Document:
    verdict, part = comparison.verdict, comparison.verdict.saving
    return _owner(comparison.team, names) | {
        "feature": comparison.feature,
        "planned_conversations": comparison.treated.conversations,
        "control_conversations": comparison.control.conversations,
        "saved_per_token": None if part is None else msgspec.structs.asdict(part),
        "hit_rate": _hit_rate(comparison.treated),
        "control_hit_rate": _hit_rate(comparison.control),
        "saved_usd": None
        if part is None
        else usd(saved_nanos(comparison.treated.cost, part.value)),
        "estimated_saved_usd": usd(comparison.estimate.nanos) if comparison.estimate else None,
        "estimated_saved_share": comparison.estimate.part if comparison.estimate else None,
        "conversations_needed": comparison.missing_conversations,
        "finding": verdict.finding.value,
        "why": verdict.why,
    }


def _feature(
    place: LayoutScope,
    standing: FeatureState,
    proposals: Sequence[Proposal],
    names: Mapping[str, str],
) -> Document:
    return _owner(place.team, names) | {
        "feature": place.feature,
        "family": place.family,
        "mode": standing.mode,
        "is_off": standing.is_off,
        "suspended": standing.suspended,
        "suspended_at": _iso_time(standing.suspended_at),
        "layout": standing.version or None,
        "active_from": _iso_time(standing.active_from),
        "proposals": sum(proposal.state is ProposalState.PROPOSED for proposal in proposals),
    }


def _version(proposal: Proposal) -> Document:
    """A version; its moves are null where this version of the gateway cannot read them."""
    try:
        moves = [_move(move) for move in msgspec.json.decode(proposal.moves, type=Layout).moves]
    except msgspec.DecodeError:
        moves = None
    return {
        "version": proposal.version,
        "state": proposal.state.value,
        "proposed_at": _iso_time(proposal.made),
        "decided_at": _iso_time(proposal.decided_at),
        "decided_by": proposal.decided_by,
        "moves": moves,
    }


def _move(move: LayoutMove) -> Document:
    return {
        "label": move.label,
        "shows": move.shows,
        "slot": move.slot.value,
        "values": move.values,
        "calls": move.calls,
        "conversations": move.conversations,
        "saves_usd_per_1k_calls": usd(move.saving),
    }


def _hit_rate(sample: ArmTotals) -> float | None:
    return _rate(sample.reads, sample.tokens)


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _iso_time(seconds: float) -> str | None:
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
