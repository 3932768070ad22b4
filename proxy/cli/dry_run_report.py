"""The result of a dry run of compaction, in sentences."""

from collections.abc import Iterator
from math import ceil
from typing import Final

from compaction.cost_model import SAFETY_FACTOR
from compaction.policy import CompactionMode
from proxy.cli.compaction_reasons import COMPACTED_CODES, reason_text
from proxy.cli.dry_run import DryRunResult

#: Characters of a reason that has no code, and what is wrong of a conversation, that are shown.
_MAX_REASON_CHARS: Final = 100
_MAX_FAULTS: Final = 3


def summary_lines(found: DryRunResult, came: int) -> Iterator[str]:
    """The lines that stand above all others.

    Args:
        found: The result.
        came: Number of messages in the conversation.
    """
    before, after = found.tokens_before, found.tokens_after
    share = f" ({after / before - 1:+.1%})".replace("-", "−") if before != after else ""  # noqa: RUF001
    yield f"{found.model}: {before:,} → {after:,} tokens{share}, tools included."
    yield _outcome_line(found, came)
    yield from _price_line(found)
    if found.target_missed is not None:
        yield _missed_target_line(found)
    if found.gateway is not None:
        yield f"The gateway would leave it alone all the same: {reason_text(found.gateway)}."


def single_line(text: str, max_chars: int) -> str:
    """The text on one line, cut, and without what would move a terminal's cursor."""
    line = " ".join(text[: 4 * max_chars].split())
    line = "".join(each if each.isprintable() else "�" for each in line)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _outcome_line(found: DryRunResult, came: int) -> str:
    """True if it is compacted, and why or why not."""
    why = _reason(found)
    if found.compacted:
        many = f"Compacted: facts stand for {found.compacted_messages:,} of {came:,} messages"
        if _is_compacted_now(found):
            return f"{many}; {why}."
        return (
            f"{many} since call {found.since_call:,} of {found.calls:,};"
            f" nothing more is compacted now: {why}."
        )
    if found.changed:
        return f"Trimmed: tool results are shortened without loss. Not compacted: {why}."
    return f"Not compacted: {why}. It would be sent unmodified."


def _reason(found: DryRunResult) -> str:
    if found.faults:
        shown = "; ".join(
            single_line(each, _MAX_REASON_CHARS) for each in found.faults[:_MAX_FAULTS]
        )
        more = len(found.faults) - _MAX_FAULTS
        return f"it is invalid unmodified: {shown}{f'; and {more:,} more' if more > 0 else ''}"
    if found.mode == CompactionMode.TRIM and found.reason == "nothing_to_compact":
        return (
            reason_text(CompactionMode.TRIM)
            if found.changed
            else "no tool result can be shortened without loss"
        )
    return single_line(reason_text(found.reason), 2 * _MAX_REASON_CHARS)


def _is_compacted_now(found: DryRunResult) -> bool:
    return found.reason in COMPACTED_CODES or found.since_call in {None, found.calls}


def _price_line(found: DryRunResult) -> Iterator[str]:
    """The line on how many calls pay a compaction back; none where none do, or nobody asked."""
    calls = found.break_even
    if calls is None:
        return
    if found.compacted and _is_compacted_now(found):
        yield (
            f"The compaction pays itself back in {calls:.1f} calls, this one included;"
            f" {_calls_text(found.calls)} so far."
        )
        return
    a_compaction = "Another compaction" if found.compacted else "A compaction"
    if found.reason != "does_not_pay":
        yield f"{a_compaction} now would pay itself back in {calls:.1f} calls, this one included."
        return
    due = ceil(SAFETY_FACTOR * calls)
    yield (
        f"{a_compaction} now would pay itself back in {calls:.1f} calls. Nobody knows how many will"
        f" follow, so it is done once about {due:,} were made, {SAFETY_FACTOR:.0f} times as many;"
        f" {_calls_text(found.calls)}{_calls_needed(found, due)}."
    )


def _calls_needed(found: DryRunResult, due: int) -> str:
    return ", but earlier compactions have to be paid back too" if found.calls >= due else ""


def _calls_text(calls: int) -> str:
    return "1 was made" if calls == 1 else f"{calls:,} were made"


def _missed_target_line(found: DryRunResult) -> str:
    """By how much a target is missed, and what stands in its way."""
    said = f"The target of {found.target:,} tokens was missed by {found.target_missed:,}"
    kept = found.kept_tokens
    if kept is None:
        return f"{said}: nothing was compacted."
    turns = "turn" if found.keep_turns == 1 else f"{found.keep_turns:,} turns"
    rest = f"the last {turns}" if _is_compacted_now(found) else "the turns after the compaction"
    what = f"system text, tools and {rest}"
    if kept > found.target:
        return f"{said}: {what} alone weigh {kept:,}."
    facts = found.tokens_after - kept
    return f"{said}: {what} weigh {kept:,}, and the facts {facts:,}."
