"""The result of a dry run of compaction, in sentences."""

from collections.abc import Iterator
from math import ceil
from typing import Final

from compaction.cost_model import SAFETY_FACTOR, STRICT_SAFETY_FACTOR, CompactionReason
from compaction.policy import CompactionMode
from compaction.reading.redaction import redact_secrets
from proxy.cli.compaction.dry_run import DryRunResult
from proxy.services.compaction.reason_texts import COMPACTED_CODES, reason_text

#: Characters of a reason that has no code, and what is wrong of a conversation, that are shown.
_MAX_REASON_CHARS: Final = 100
_MAX_FAULTS: Final = 3


def summary_lines(result: DryRunResult, came: int) -> Iterator[str]:
    """The lines that stand above all others.

    Args:
        came: Number of messages in the conversation.
    """
    before, after = result.tokens_before, result.tokens_after
    share = f" ({after / before - 1:+.1%})".replace("-", "−") if before != after else ""  # noqa: RUF001
    yield f"{result.model}: {before:,} → {after:,} tokens{share}, tools included."
    yield _outcome_line(result, came)
    yield from _price_line(result)
    if result.target_missed is not None:
        yield _missed_target_line(result)


def kept_line(result: DryRunResult) -> Iterator[str]:
    """The values that are kept, beside the best of the simple ways; none for no comparison."""
    values = result.kept_values
    if values is not None:
        yield (
            f"Of {values.total:,} values and names of the whole conversation {values.kept:,} are"
            f" kept; the best simple way in as many tokens ({values.way}) would keep"
            f" {values.way_kept:,}."
        )


def single_line(text: str, max_chars: int) -> str:
    """The text on one line, cut, without secrets and what would move a terminal's cursor."""
    line = " ".join(redact_secrets(text)[: 4 * max_chars].split())
    line = "".join(character if character.isprintable() else "�" for character in line)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _outcome_line(result: DryRunResult, came: int) -> str:
    """True if it is compacted, and why or why not."""
    why = _reason(result)
    if result.compacted:
        many = f"Compacted: facts stand for {result.compacted_messages:,} of {came:,} messages"
        if _is_compacted_now(result):
            return f"{many}; {why}."
        return (
            f"{many} since call {result.since_call:,} of {result.calls:,};"
            f" nothing more is compacted now: {why}."
        )
    if result.changed:
        cut = f", {result.cut_results} of them to head and tail after they were shown whole"
        how = cut if result.cut_results else " without loss"
        return f"Trimmed: tool results are shortened{how}. Not compacted: {why}."
    return f"Not compacted: {why}. It would be sent unmodified."


def _reason(result: DryRunResult) -> str:
    if result.faults:
        shown = "; ".join(
            single_line(fault, _MAX_REASON_CHARS) for fault in result.faults[:_MAX_FAULTS]
        )
        more = len(result.faults) - _MAX_FAULTS
        return f"it is invalid unmodified: {shown}{f'; and {more:,} more' if more > 0 else ''}"
    if result.mode == CompactionMode.TRIM and result.reason == "nothing_to_compact":
        return (
            reason_text(CompactionMode.TRIM)
            if result.changed
            else "no tool result can be shortened without loss"
        )
    return single_line(reason_text(result.reason), 2 * _MAX_REASON_CHARS)


def _is_compacted_now(result: DryRunResult) -> bool:
    return result.reason in COMPACTED_CODES or result.since_call in {None, result.calls}


def _price_line(result: DryRunResult) -> Iterator[str]:
    """The line on how many calls pay a compaction back; none without a break-even."""
    calls = result.break_even
    if calls is None:
        return
    if result.compacted and _is_compacted_now(result):
        yield (
            f"The compaction pays itself back in {calls:.1f} calls, this one included;"
            f" {_calls_text(result.calls)} so far."
        )
        yield from _stake_line(result, calls)
        return
    a_compaction = "Another compaction" if result.compacted else "A compaction"
    if result.reason != "does_not_pay":
        yield f"{a_compaction} now would pay itself back in {calls:.1f} calls, this one included."
        return
    due = ceil(SAFETY_FACTOR * calls)
    more = ", but earlier compactions have to be paid back too" if result.calls >= due else ""
    yield (
        f"{a_compaction} now would pay itself back in {calls:.1f} calls. Nobody knows how many will"
        f" follow, so it is done once about {due:,} were made, {SAFETY_FACTOR:.0f} times as many;"
        f" {_calls_text(result.calls)}{more}."
    )


def _stake_line(result: DryRunResult, break_even: float) -> Iterator[str]:
    """The line on a compaction that live may wait, for no balance is known here."""
    due = ceil(STRICT_SAFETY_FACTOR * break_even)
    if result.reason == CompactionReason.PAYS and result.calls < due:
        yield (
            "If compaction has lost its feature's stake (THRIFTGATE_LEARNING_STAKE), it waits until"
            f" about {due:,} calls were made."
        )


def _calls_text(calls: int) -> str:
    return "1 was made" if calls == 1 else f"{calls:,} were made"


def _missed_target_line(result: DryRunResult) -> str:
    """By how much a target is missed, and what stands in its way."""
    sentence = f"The target of {result.target:,} tokens was missed by {result.target_missed:,}"
    kept_tokens = result.kept_tokens
    if kept_tokens is None:
        return f"{sentence}: nothing was compacted."
    is_now = _is_compacted_now(result)
    rest = "the last turns" if is_now else "the turns after the compaction"
    what = f"system text, tools and {rest}"
    if kept_tokens > result.target:
        return f"{sentence}: {what} alone weigh {kept_tokens:,}."
    facts = result.tokens_after - kept_tokens
    return f"{sentence}: {what} weigh {kept_tokens:,}, and the facts {facts:,}."
