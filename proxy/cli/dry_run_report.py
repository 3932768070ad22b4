"""What came of trying to fold a conversation, in sentences."""

from collections.abc import Iterator
from math import ceil
from typing import Final

from compaction.cost_model import SAFETY_FACTOR
from compaction.policy import CompactionMode
from proxy.cli.compaction_reasons import FOLDS, words
from proxy.cli.dry_run import Trial

#: Characters of a reason that has no code, and what is wrong of a conversation, that are shown.
_WORDS: Final = 100
_FAULTS: Final = 3


def head(found: Trial, came: int) -> Iterator[str]:
    """The lines that stand above all others.

    Args:
        found: What came of it.
        came: How many messages the conversation has.
    """
    before, after = found.tokens_before, found.tokens_after
    share = f" ({after / before - 1:+.1%})".replace("-", "−") if before != after else ""  # noqa: RUF001
    yield f"{found.model}: {before:,} → {after:,} tokens{share}, tools included."
    yield _became(found, came)
    yield from _paid(found)
    if found.target_missed is not None:
        yield _missed(found)
    if found.gateway is not None:
        yield f"The gateway would leave it alone all the same: {words(found.gateway)}."


def plain(text: str, most: int) -> str:
    """The text on one line, cut, and without what would move a terminal's cursor."""
    line = " ".join(text[: 4 * most].split())
    line = "".join(each if each.isprintable() else "�" for each in line)
    return line if len(line) <= most else line[: most - 1] + "…"


def _became(found: Trial, came: int) -> str:
    """True if it is folded, and why or why not."""
    why = _why(found)
    if found.folded:
        many = f"Folded: facts stand for {found.folded_messages:,} of {came:,} messages"
        if _is_folded_now(found):
            return f"{many}; {why}."
        return (
            f"{many} since call {found.since_call:,} of {found.calls:,};"
            f" nothing more is folded now: {why}."
        )
    if found.changed:
        return f"Trimmed: tool results are said shorter, without loss. Not folded: {why}."
    return f"Not folded: {why}. It would be sent as it came."


def _why(found: Trial) -> str:
    if found.faults:
        shown = "; ".join(plain(each, _WORDS) for each in found.faults[:_FAULTS])
        more = len(found.faults) - _FAULTS
        return f"it is invalid as it came: {shown}{f'; and {more:,} more' if more > 0 else ''}"
    if found.mode == CompactionMode.TRIM and found.reason == "nothing_to_fold":
        return (
            words(CompactionMode.TRIM)
            if found.changed
            else "no tool result is shorter said otherwise"
        )
    return plain(words(found.reason), 2 * _WORDS)


def _is_folded_now(found: Trial) -> bool:
    return found.reason in FOLDS or found.since_call in {None, found.calls}


def _paid(found: Trial) -> Iterator[str]:
    """What it takes for a fold to pay; nothing where it never would, or nobody asked."""
    calls = found.break_even
    if calls is None:
        return
    if found.folded and _is_folded_now(found):
        yield (
            f"The fold pays itself back in {calls:.1f} calls, this one included;"
            f" {_counted(found.calls)} so far."
        )
        return
    a_fold = "Another fold" if found.folded else "A fold"
    if found.reason != "does_not_pay":
        yield f"{a_fold} now would pay itself back in {calls:.1f} calls, this one included."
        return
    due = ceil(SAFETY_FACTOR * calls)
    yield (
        f"{a_fold} now would pay itself back in {calls:.1f} calls. Nobody knows how many will"
        f" follow, so it is done once about {due:,} were made, {SAFETY_FACTOR:.0f} times as many;"
        f" {_counted(found.calls)}{_owed(found, due)}."
    )


def _owed(found: Trial, due: int) -> str:
    return ", but earlier folds have to be paid back too" if found.calls >= due else ""


def _counted(calls: int) -> str:
    return "1 was made" if calls == 1 else f"{calls:,} were made"


def _missed(found: Trial) -> str:
    """By how much a target is missed, and what stands in its way."""
    said = f"The target of {found.target:,} tokens was missed by {found.target_missed:,}"
    kept = found.kept_tokens
    if kept is None:
        return f"{said}: nothing was folded."
    turns = "turn" if found.keep_turns == 1 else f"{found.keep_turns:,} turns"
    rest = f"the last {turns}" if _is_folded_now(found) else "what came after the fold"
    what = f"system text, tools and {rest}"
    if kept > found.target:
        return f"{said}: {what} alone weigh {kept:,}."
    facts = found.tokens_after - kept
    return f"{said}: {what} weigh {kept:,}, and the facts {facts:,}."
