"""Facts about files: each path, what was done to it in order, and so its last state."""

from collections.abc import Iterator
from typing import Final

from compaction.agents.file_operations import (
    ALL_FILES,
    CHANGES,
    FileEffect,
    FileOperation,
    file_operations,
    says_not_edited,
)
from compaction.facts.call_outcomes import CallOutcome
from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents, ToolExchange

#: Maximum steps of a file's trail: the first, and the latest.
_MAX_STEPS: Final = 8
_CUT: Final = "…"
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
        for operation in file_operations(exchange.called, exchange.result):
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


def _step(exchange: ToolExchange, operation: FileOperation) -> str:
    """An operation with its outcome: a change that failed is none, and one may be unknown."""
    effect = operation.effect
    outcome = CallOutcome(exchange)
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
