"""The rows of the table: measures with their cases, sizes and goals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from tests.bench.compaction import agent_sets, chat_sets, marked_sets, windows
from tests.bench.compaction.cases import ChatCase
from tests.bench.compaction.retail import RETAIL
from tests.fakes.dialogue import Dialogue
from tests.fakes.marked_conversations import TWINS, WORK, twins

#: A size: the part of the conversation's tokens to come down to, or tokens of the whole prompt.
NO_TARGET: Final = "none"
SIZES: Final[Mapping[str, tuple[float, int]]] = {
    NO_TARGET: (0.0, 0),
    "50 %": (0.5, 0),
    "40 %": (0.4, 0),
    "25 %": (0.25, 0),
    "14 %": (0.14, 0),
    "to 3,000": (0.0, windows.TARGET_TOKENS),
}
ChatReader = Callable[[], Sequence[chat_sets.AnnotatedChat]]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A measure.

    Attributes:
        cases: Its cases.
        path: File or folder that must be there for them.
        goals: Percent to keep at each size; 0 for no goal.
    """

    cases: Callable[[], Iterable[ChatCase]]
    path: Path
    goals: Mapping[str, float]

    @property
    def is_recorded(self) -> bool:
        """True if it has dialogues that are held back: those that others wrote."""
        return self.path not in {TWINS, WORK}


def _named_later(read: ChatReader, path: Path) -> Row:
    """Values that only the assistant said and anybody names after the call."""
    return Row(
        cases=lambda: chat_sets.named_again(read()), path=path, goals={NO_TARGET: 97, "50 %": 90}
    )


def _named_before(read: ChatReader, path: Path) -> Row:
    """The same in long chats, up to the call: all that was named again at any time."""
    return Row(
        cases=lambda: chat_sets.named_before(chat_sets.in_fours(read())),
        path=path,
        goals={NO_TARGET: 97, "50 %": 90, "25 %": 0},
    )


def _twin_row(*languages: str) -> Row:
    """Values that only the assistant said, in twin conversations."""
    return Row(
        cases=partial(marked_sets.assistant_values, languages),
        path=TWINS,
        goals={NO_TARGET: 97, "50 %": 90, "25 %": 0},
    )


@cache
def rows(more: Path) -> Mapping[str, Row]:
    """All rows, by name.

    Args:
        more: Folder of further sets, laid out as the recorded ones.
    """
    return {**_agent_rows(more), **_chat_rows(more), **_written_rows()}


def _desk_rows(name: str, read: Callable[[], Sequence[Dialogue]], path: Path) -> Mapping[str, Row]:
    """Values of a desk's later calls, and pairs of them."""
    return {
        f"τ-bench, {name}: values of later calls": Row(
            cases=lambda: agent_sets.later_calls(read()),
            path=path,
            goals={NO_TARGET: 100, "50 %": 100, "40 %": 97, "25 %": 80},
        ),
        f"τ-bench, {name}: pairs of them": Row(
            cases=lambda: agent_sets.pairs_of_calls(read()),
            path=path,
            goals={NO_TARGET: 100, "50 %": 100, "40 %": 95, "25 %": 70},
        ),
    }


def _agent_rows(more: Path) -> Mapping[str, Row]:
    """Recorded agents and long chats."""
    retail = more / RETAIL
    return {
        **_desk_rows("airline", agent_sets.airline, agent_sets.TAU),
        **_desk_rows("retail", partial(agent_sets.retail_desk, retail), retail),
        "pi: code lines of the next ten edits": Row(
            cases=agent_sets.code_lines, path=agent_sets.PI, goals={NO_TARGET: 85, "25 %": 85}
        ),
        "GoodAI, 100,000 tokens: words of answers": Row(
            cases=agent_sets.long_chats, path=agent_sets.GOODAI, goals={NO_TARGET: 0, "14 %": 86}
        ),
        "GoodAI, 100,000 tokens: wherever they stand": Row(
            cases=partial(agent_sets.long_chats, everywhere=True),
            path=agent_sets.GOODAI,
            goals={NO_TARGET: 0, "14 %": 86},
        ),
        "12,000 tokens: values of later calls": Row(
            cases=windows.windows, path=agent_sets.TAU, goals={"to 3,000": 0}
        ),
    }


def _chat_rows(more: Path) -> Mapping[str, Row]:
    """Recorded chats."""
    chinese_path = more / chat_sets.CROSSWOZ
    chinese = partial(chat_sets.crosswoz, chinese_path)
    return {
        "MultiWOZ: named later": _named_later(chat_sets.multiwoz, chat_sets.MULTIWOZ),
        "English (SGD): named later": _named_later(chat_sets.sgd, chat_sets.SGD),
        "Chinese (CrossWOZ): named later": _named_later(chinese, chinese_path),
        "SGD: proposals accepted": Row(
            cases=lambda: chat_sets.accepted_proposals(chat_sets.sgd()),
            path=chat_sets.SGD,
            goals={NO_TARGET: 98, "50 %": 95},
        ),
        "MultiWOZ, four in a row: named again": _named_before(
            chat_sets.multiwoz, chat_sets.MULTIWOZ
        ),
        "English (SGD), four in a row: named again": _named_before(chat_sets.sgd, chat_sets.SGD),
        "Chinese (CrossWOZ), four in a row: named again": _named_before(chinese, chinese_path),
        "SGD, four in a row: proposals accepted": Row(
            cases=lambda: chat_sets.accepted_proposals(chat_sets.in_fours(chat_sets.sgd())),
            path=chat_sets.SGD,
            goals={NO_TARGET: 98, "50 %": 95, "25 %": 0},
        ),
    }


def _written_rows() -> Mapping[str, Row]:
    """Conversations that were written for the bench."""
    others = [language for language in twins() if language not in {"en", "zh"}]
    return {
        "Twins, English: said by the assistant": _twin_row("en"),
        "Twins, Chinese: said by the assistant": _twin_row("zh"),
        "Twins, 17 others: said by the assistant": _twin_row(*others),
        "Twins, all: proposals accepted": Row(
            cases=marked_sets.accepted_proposals,
            path=TWINS,
            goals={NO_TARGET: 98, "50 %": 95, "25 %": 0},
        ),
        "Shop, desk, bank, coder: needed later": Row(
            cases=marked_sets.kinds_of_work,
            path=WORK,
            goals={NO_TARGET: 97, "50 %": 90, "25 %": 0},
        ),
    }
