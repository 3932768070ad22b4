# ruff: noqa: T201 - a script prints its result

"""Writes fourteen compacted conversations with ten questions each for a reader who knows no more.

Eight were written for the bench: English, German, Chinese, Arabic, a shop, a help desk, a bank, a
coding agent. Six are recorded, and ask for gaps in the assistant's sentences: four chats in a row,
 and two desks of 12,000 tokens. Questions stand below each compacted form; the answers
lie apart, in ``answers``.

Usage: python -m tests.bench.compaction.reader FOLDER [--size "50 %"] [--more DIR]
"""

import argparse
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from tests.bench.compaction import agent_sets, chat_sets, windows
from tests.bench.compaction.cases import ChatCase, at_risk, call_places, plain, sample, stands
from tests.bench.compaction.measuring import compact_case
from tests.bench.compaction.rows import NO_TARGET, SIZES
from tests.fakes.dialogue import Message, words
from tests.fakes.marked_conversations import WORK, twins, work

_QUESTIONS: Final = WORK.with_name("reader_questions.toml")
_PER_FORM: Final = 10
_GAP: Final = "____"
#: Hides answers of other questions.
_OTHER_GAP: Final = "…"
_FIGURE: Final = re.compile(r"\b(?=\w*\d)[\w-]{3,}\b")
_MIN_VALUE_CHARS: Final = 2
_MAX_CONTEXT_CHARS: Final = 160


@dataclass(frozen=True)
class ReaderForm:
    """A conversation for the reader.

    Attributes:
        case: It.
        size: How far it is brought down.
        questions: Each with its answer.
    """

    case: ChatCase
    size: str
    questions: Sequence[tuple[str, str]]


def forms(size: str, more: Path) -> Iterator[ReaderForm]:
    """All fourteen, as far as their sets are there."""
    conversations = {**twins(), **work()}
    for name, pairs in tomllib.loads(_QUESTIONS.read_text(encoding="utf8")).items():
        case = ChatCase(name=name, messages=conversations[name].messages, needed=())
        yield ReaderForm(case, size, [(question, answer) for question, answer in pairs])
    chinese = more / chat_sets.CROSSWOZ
    yield from _chat_forms(chat_sets.multiwoz() if chat_sets.MULTIWOZ.exists() else [], 2, size)
    yield from _chat_forms(chat_sets.sgd() if chat_sets.SGD.exists() else [], 1, size)
    yield from _chat_forms(chat_sets.crosswoz(chinese) if chinese.exists() else [], 1, size)
    if agent_sets.TAU.exists():
        yield from islice(_desk_forms(size), 2)


def _chat_forms(
    chats: Sequence[chat_sets.AnnotatedChat], number: int, size: str
) -> Iterator[ReaderForm]:
    """Four chats in a row: values that only the assistant said, as gaps in its sentences."""
    rows = {chat.name: chat for chat in chat_sets.in_fours(chats)}
    full_forms = (
        form
        for name in sample(rows, len(rows))
        for form in [_gap_form(name, rows[name].messages, rows[name].told, size)]
        if len(form.questions) == _PER_FORM
    )
    yield from islice(full_forms, number)


def _desk_forms(size: str) -> Iterator[ReaderForm]:
    """Desks of 12,000 tokens: figures that the assistant told, as gaps in its sentences."""
    cases = {case.name: case for case in windows.desk_windows()}
    for case in map(cases.__getitem__, sample(cases, len(cases))):
        told = {
            place: _FIGURE.findall(words(message))
            for place, message in enumerate(case.messages)
            if message["role"] == "assistant" and not message.get("tool_calls")
        }
        form = _gap_form(case.name, case.messages, told, size)
        if len(form.questions) == _PER_FORM:
            yield form


def _gap_form(
    name: str, messages: Sequence[Message], told: Mapping[int, Sequence[str]], size: str
) -> ReaderForm:
    """A form whose questions are sentences of the assistant with a gap; a value is asked once."""
    now = call_places(messages)[-1]
    pairs = {
        value: (place, value)
        for place, values in told.items()
        for value in values
        if _is_telling(value)
        and at_risk(messages, now, [value], by_assistant=True)
        and stands(plain(words(messages[place])), plain(value))
    }
    chosen = [*pairs.values()][:: max(1, len(pairs) // _PER_FORM)][:_PER_FORM]
    gaps = re.compile("|".join(_whole(value) for _, value in chosen) or "$^", re.IGNORECASE)
    questions = [(_question(messages, place, value, gaps), value) for place, value in chosen]
    return ReaderForm(ChatCase(name=name, messages=messages[:now], needed=()), size, questions)


def _whole(value: str) -> str:
    """A pattern of the value that no ASCII letter or digit goes on with."""
    return rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])"


def _is_telling(value: str) -> bool:
    """True if a value is a figure, a name, or of a script without capitals."""
    return len(value) > _MIN_VALUE_CHARS and (
        any(map(str.isdigit, value)) or not value.isascii() or not value[0].islower()
    )


def _question(messages: Sequence[Message], place: int, value: str, gaps: re.Pattern[str]) -> str:
    """The assistant's words with a gap, behind the user's that they answer; no answer stands."""

    def fill(match: re.Match[str]) -> str:
        return _GAP if match[0].casefold() == value.casefold() else _OTHER_GAP

    before = next(m for m in reversed(messages[:place]) if m["role"] == "user")
    asked = gaps.sub(fill, words(before))[:_MAX_CONTEXT_CHARS]
    said = " ".join(gaps.sub(fill, words(messages[place])).split())
    return f"Fill the gap. The user said: “{asked}” The assistant answered: “{said}”"


def _text(form: ReaderForm) -> str:
    """The compacted form and the questions."""
    sent = compact_case(form.case, *SIZES[form.size]).messages
    parts = [f"## {message['role']}\n\n{words(message)}\n" for message in sent]
    numbered = [f"{number}. {question}" for number, (question, _) in enumerate(form.questions, 1)]
    return "\n".join(
        ["# The conversation as the model gets it\n", *parts, "# Questions\n", *numbered, ""]
    )


def write_forms(written: Iterable[ReaderForm], folder: Path) -> Iterator[str]:
    """Write the forms and, apart from them, the answers; yields a line for each."""
    answers = folder / "answers"
    answers.mkdir(parents=True, exist_ok=True)
    for number, form in enumerate(written, start=1):
        name = f"{number:02d}.md"
        (folder / name).write_text(_text(form), encoding="utf8")
        gold = [f"{index}. {answer}" for index, (_, answer) in enumerate(form.questions, 1)]
        head = f"{form.case.name}, size {form.size}"
        (answers / name).write_text("\n".join([head, "", *gold, ""]), encoding="utf8")
        yield f"{name}: {head}, {len(form.questions)} questions"


def main() -> None:
    """Write all forms."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=SIZES, default=NO_TARGET)
    parser.add_argument("--more", type=Path, default=chat_sets.DATA, help="folder of further sets")
    options = parser.parse_args()
    for line in write_forms(forms(options.size, options.more), options.folder):
        print(line)


if __name__ == "__main__":
    main()
