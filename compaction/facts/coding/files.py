"""Facts about files: what was done to each in order, and the lines of it that are known."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import orjson

from compaction.agents.file_operations import (
    ALL_FILES,
    CHANGES,
    FileEffect,
    FileOperation,
    says_not_edited,
)
from compaction.facts.coding.file_slices import file_slices
from compaction.facts.fact import ARROW, Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange
from compaction.facts.rendering import flatten_text
from compaction.reading.message import CalledTool, parse_arguments
from compaction.results.command_outcomes import CallOutcome

#: Maximum steps of a file's trail: the first, and the latest.
_MAX_STEPS: Final = 8
_CUT: Final = "…"
#: Follows a call that shows a file as it may be no longer.
_OUTDATED: Final = " (may be outdated)"
#: Kinds of facts that hold the texts of their calls and results.
_SHOWING: Final = frozenset({FactKind.ACTION, FactKind.RECORD})
#: Maximum characters of an argument of an edit that was made.
_MAX_EDIT_CHARS: Final = 80
#: Effects that a call may fail to have.
_JUDGED: Final = CHANGES | {FileEffect.VIEWED}


class _Trail:
    """The steps of a file's trail, each with how often it was made in a row."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.turns: dict[int, None] = {}
        self.last = 0

    def add(self, step: str, exchange: ToolExchange) -> None:
        """Add a step; one like the last is counted."""
        times = 1
        if self.steps and self.steps[-1][0] == step:
            times += self.steps.pop()[1]
        self.steps.append((step, times))
        self.turns[exchange.turn] = None
        self.last = exchange.messages[-1]

    def text(self) -> str:
        """The steps, the last of which is the file's state."""
        steps = [step if times == 1 else f"{step} ×{times}" for step, times in self.steps]  # noqa: RUF001
        if len(steps) > _MAX_STEPS:
            steps = [steps[0], _CUT, *steps[2 - _MAX_STEPS :]]
        return ", ".join(steps)


def file_facts(part: RegionContents) -> Iterator[Fact]:
    """Each file that calls worked on, with what they did to it, by first appearance."""
    trails: dict[str, _Trail] = {}
    changed: dict[str, None] = {}
    for exchange in part.exchanges:
        for operation in exchange.operations:
            step = _step(exchange, operation)
            for path in [*changed] if operation.path == ALL_FILES else [operation.path]:
                trails.setdefault(path, _Trail()).add(step, exchange)
                if operation.effect in CHANGES:
                    changed[path] = None
    for path, trail in trails.items():
        yield Fact(
            kind=FactKind.FILE,
            text=f"{path} {trail.text()}",
            turns=tuple(trail.turns),
            messages=(trail.last,),
            key=path,
        )


def slice_facts(part: RegionContents) -> Iterator[tuple[Fact, ...]]:
    """The lines of files as they were seen last, with later edits made; the newest slice first.

    Each in all its forms: as much as may stand, and where that is more, those around its spots.
    """
    for one in file_slices(part.exchanges):
        forms = [flatten_text(text) for text in (one.excerpt_text(), one.lines_around_spots())]
        if forms[0]:
            place = f" from line {one.start}" if one.start > 1 else ""
            note = ", before later edits" if one.is_stale else ""
            whole = Fact(
                kind=FactKind.SLICE,
                text=f"{one.path}{place}{note}: {forms[0]}",
                turns=(one.turn,),
                messages=(one.message,),
                key=f"{one.path}:{one.start}",
            )
            short = msgspec.structs.replace(whole, text=f"{one.path}{note}: {forms[1]}")
            yield (whole, short) if 0 < len(forms[1]) < len(forms[0]) else (whole,)


def mark_changed_files(part: RegionContents, facts: Sequence[Fact]) -> Iterator[Fact]:
    """The facts; one that shows lines of a file says so if a change behind it is not shown."""
    standing = {fact.messages[-1] for fact in facts}
    exchanges = part.exchanges_by_end
    changes = {
        operation.path: place
        for place in part.changing_ends
        if place not in standing
        for exchange in [exchanges[place]]
        for operation in exchange.operations
        if operation.effect in CHANGES and _step(exchange, operation).startswith(operation.effect)
    }
    for fact in facts:
        place = fact.messages[-1]
        exchange = exchanges.get(place) if changes else None
        is_changed = exchange is not None and any(
            max(changes.get(operation.path, -1), changes.get(ALL_FILES, -1)) > place
            for operation in exchange.operations
        )
        is_shown = exchange is not None and is_changed and _shows_file(fact, exchange)
        yield msgspec.structs.replace(fact, text=_with_note(fact.text)) if is_shown else fact


def _shows_file(fact: Fact, exchange: ToolExchange) -> bool:
    """True if a fact shows what its call viewed or wrote, not only that it did."""
    if fact.kind is FactKind.COMMAND:
        return flatten_text(exchange.result) in fact.text
    return fact.kind in _SHOWING and not fact.text.endswith(f"{ARROW}{_CUT}")


def _with_note(text: str) -> str:
    """A call's line with a note before its result that the file was changed since."""
    call, arrow, result = text.partition(ARROW)
    return f"{call}{_OUTDATED}{arrow}{result}"


def _step(exchange: ToolExchange, operation: FileOperation) -> str:
    """An operation with its outcome: a change that failed is none, and one may be unknown."""
    effect = operation.effect
    outcome = exchange.outcome
    if effect is FileEffect.TESTED:
        return f"{effect} (failed)" if outcome.has_failed else effect.value
    if effect not in _JUDGED:
        return effect.value
    if outcome.is_wrong and not operation.is_alone:
        return f"{effect} (unknown)" if effect in CHANGES else effect.value
    is_edit = effect in CHANGES
    if outcome.is_wrong or (
        is_edit and not operation.by_shell and says_not_edited(exchange.result)
    ):
        return f"not {effect} (error)"
    is_answered = exchange.result or (operation.by_shell and len(exchange.messages) > 1)
    return effect.value if is_answered or not is_edit else f"{effect} (unknown)"


def is_file_work(exchange: ToolExchange) -> bool:
    """True if a call viewed or changed files, whose lines stand by themselves."""
    operations = exchange.operations
    return bool(operations) and all(one.effect in _JUDGED for one in operations)


def is_made_edit(exchange: ToolExchange, ended: CallOutcome) -> bool:
    """True if an editor's call changed files: its texts stand in them, or were changed again."""
    operations = exchange.operations
    return (
        bool(operations and exchange.result)
        and all(one.effect in CHANGES and not one.by_shell for one in operations)
        and not (ended.is_wrong or says_not_edited(exchange.result))
    )


def call_without_texts(called: CalledTool) -> CalledTool:
    """A call without arguments of several lines, and without long ones."""
    read = parse_arguments(called)
    if not isinstance(read, dict):
        return called
    fields = {
        key: value
        for key, value in read.items()
        if len(text := str(value)) <= _MAX_EDIT_CHARS and "\n" not in text
    }
    return msgspec.structs.replace(called, arguments=orjson.dumps(fields).decode())
