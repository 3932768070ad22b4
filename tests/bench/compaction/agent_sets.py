"""Recorded agents by what their later calls need, and one very long chat with expected answers."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import orjson

from tests.bench.compaction.cases import (
    ChatCase,
    Need,
    at_risk,
    call_places,
    joined_text,
    later_values,
    old_part,
    pairs,
    plain,
    stands,
    user_turns,
)
from tests.bench.compaction.dialogues import ANSWER_WORDS, SETS, dialogues
from tests.bench.compaction.measuring import tokenizer
from tests.bench.compaction.retail import retail
from tests.fakes.dialogue import Dialogue, Message, leaves, words

TAU: Final = SETS["tau"][1]
PI: Final = SETS["pi-mono"][1]
GOODAI: Final = SETS["goodai"][1]
#: Tokens of pi's session at the calls that are looked at.
_CODE_TOKENS: Final = (30_000, 45_000, 60_000, 80_000, 100_000)
_NEXT_EDITS: Final = 10
#: Lines of code with fewer characters stand everywhere.
_MIN_LINE_CHARS: Final = 8
_LONG_CHAT_TOKENS: Final = 100_000


@cache
def airline() -> Sequence[Dialogue]:
    """τ-bench's airline desk."""
    return dialogues("tau")


@cache
def retail_desk(path: Path) -> Sequence[Dialogue]:
    """τ-bench's retail desk."""
    return list(retail(path))


def later_calls(desk: Sequence[Dialogue]) -> Iterator[ChatCase]:
    """Values that a desk's later calls name."""
    for one in desk:
        for now in call_places(one.messages):
            needed = [(value,) for values in _values_by_call(one, now) for value in values]
            if needed:
                yield _desk_case(one, now, needed)


def pairs_of_calls(desk: Sequence[Dialogue]) -> Iterator[ChatCase]:
    """Pairs of values that one later call names and one message held."""
    for one in desk:
        for now in call_places(one.messages):
            part = one.messages[slice(*old_part(one.messages, now))]
            needed = [pair for values in _values_by_call(one, now) for pair in pairs(part, values)]
            if needed:
                yield _desk_case(one, now, needed)


def _desk_case(dialogue: Dialogue, now: int, needed: Sequence[Need]) -> ChatCase:
    """A case of a desk; of its class is whatever its tools returned or were called with."""
    return ChatCase(
        name=dialogue.name,
        messages=dialogue.messages[:now],
        needed=needed,
        class_values=lambda: at_risk(dialogue.messages, now, _values_so_far(dialogue, now)),
    )


def _values_so_far(dialogue: Dialogue, now: int) -> Iterator[str]:
    """The values of calls and of what they returned."""
    for place, message in enumerate(dialogue.messages[:now]):
        for call in dialogue.needs.get(place, ()):
            yield from (value for _, value in call)
        if message["role"] == "tool":
            try:
                yield from leaves(orjson.loads(words(message)))
            except orjson.JSONDecodeError:
                yield words(message)


def _values_by_call(dialogue: Dialogue, now: int) -> Iterator[list[str]]:
    """The values of each later call that stand in the old part alone."""
    for place, calls in dialogue.needs.items():
        for call in calls if place >= now else ():
            yield at_risk(dialogue.messages, now, [value for _, value in call])


def code_lines() -> Iterator[ChatCase]:
    """Lines that the next ten edits of pi's session must match, of those that stood before."""
    for session in dialogues("pi-mono"):
        for now in _places_at(session, _CODE_TOKENS):
            text = joined_text(session.messages[:now])
            lines = dict.fromkeys(_edited_lines(session.messages[now:]))
            needed = [(line,) for line in lines if stands(text, line)]
            yield ChatCase(
                name=f"{session.name}@{now}",
                messages=session.messages[:now],
                needed=needed,
                class_values=partial(_lines_seen, session.messages[:now]),
            )


def _lines_seen(messages: Sequence[Message]) -> Iterator[str]:
    """The lines that tools returned."""
    for message in messages:
        if message["role"] == "tool":
            for line in words(message).splitlines():
                if len(line.strip()) >= _MIN_LINE_CHARS:
                    yield plain(line.strip())


def long_chats(*, everywhere: bool = False) -> Iterator[ChatCase]:
    """Words of the answers that GoodAI's two chats expect behind their first 100,000 tokens.

    Args:
        everywhere: True for words that stand anywhere, as chapters and quizzes between the tasks
            hold words of answers by chance; else those that a user said of the same task.
    """
    later_words = later_values if everywhere else _words_told
    for chat in dialogues("goodai"):
        for now in _places_at(chat, (_LONG_CHAT_TOKENS,)):
            needed = [(value,) for value in at_risk(chat.messages, now, later_words(chat, now))]
            yield ChatCase(
                name=chat.name,
                messages=chat.messages[:now],
                needed=needed,
                class_values=partial(_answer_words, chat.messages[:now], everywhere=everywhere),
            )


def _words_told(chat: Dialogue, now: int) -> Iterator[str]:
    """The words of later answers that a user said of their task."""
    told: dict[str, str] = {}
    for message, task in zip(chat.messages[:now], chat.tasks, strict=False):
        if message["role"] == "user":
            told[task] = f"{told.get(task, '')}\n{plain(words(message))}"
    for place, needs in chat.needs.items():
        text = told.get(chat.tasks[place], "")
        if place >= now:
            yield from (v for need in needs for _, v in need if stands(text, plain(v)))


def _answer_words(messages: Sequence[Message], *, everywhere: bool) -> Sequence[str]:
    """The words that could be of an answer: those that anybody or a user said."""
    texts = [words(one) for one in messages if everywhere or one["role"] == "user"]
    answer_words = (word for text in texts for word in ANSWER_WORDS.findall(text))
    return at_risk(messages, len(messages), answer_words)


def _places_at(dialogue: Dialogue, tokens: Iterable[int]) -> Iterator[int]:
    """The calls at which a dialogue first has so many tokens."""
    count = tokenizer()
    sizes = list(accumulate(count(words(message)) for message in dialogue.messages))
    calls = [
        place
        for place, message in enumerate(dialogue.messages)
        if message["role"] == "assistant" and place > user_turns(dialogue.messages)[0]
    ]
    for least in tokens:
        yield next(place for place in calls if sizes[place - 1] >= least)


def _edited_lines(messages: Iterable[Message]) -> Iterator[str]:
    """The lines that the next edits must match."""
    edits = (
        call["function"]["arguments"]
        for message in messages
        for call in message.get("tool_calls") or ()
        if call["function"]["name"] == "edit"
    )
    for arguments, _ in zip(edits, range(_NEXT_EDITS), strict=False):
        edit: dict[str, Any] = orjson.loads(arguments)
        for line in edit.get("oldText", "").split("\n"):
            if len(line.strip()) >= _MIN_LINE_CHARS:
                yield plain(line.strip())
