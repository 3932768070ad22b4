"""Counts what later calls still find of a compacted part: values, and pairs of values.

At risk is a value that a call names, that stands in the part compacted before it, and neither in
the system text nor in the messages since. It is kept if it still stands in what is sent for the
part. A pair of one call's values at risk is bound if one message of the part held both, and stays
bound if one line of what is sent does. Pairs that only the assistant put beside each other, in its
own
words, are counted by themselves: no record says that they belong together. A value stands in a text
as a whole: no letter or digit touches it. Escaping and white space make no difference; where a
value has several spellings, any of them will do.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Final

from proxy.tokens.vocabulary import Tokenizer
from tests.fakes.dialogue import SPELT, Dialogue, Message, words

Pair = tuple[str, str]
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrt])")
_SPACE: Final = re.compile(r"[\s¶]+")
#: Who put a pair's values beside each other: a user, a call or its result; or the assistant alone.
RECORD: Final = "record"
SAID: Final = "said"
#: Most pairs of one call that are looked at.
_PAIRS: Final = 400


@dataclass(frozen=True)
class CompactedRange:
    """A part of a dialogue that is compacted, and the calls that are still to come.

    Attributes:
        dialogue: The dialogue.
        start: The first message that is compacted.
        end: The first that is not.
        calls: The messages whose calls are looked at.
    """

    dialogue: Dialogue
    start: int
    end: int
    calls: tuple[int, ...]

    @cached_property
    def part(self) -> Sequence[Message]:
        """The messages that are compacted."""
        return self.dialogue.messages[self.start : self.end]


#: What is sent for the part that a cut compacts: lines, or messages where it leaves them whole.
Method = Callable[[CompactedRange], Sequence[str]]


@dataclass
class Score:
    """Values that a method kept, summed over cuts."""

    needed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)
    bound: Counter[str] = field(default_factory=Counter)
    before: int = 0
    after: int = 0
    lost: list[str] = field(default_factory=list)
    parted: list[str] = field(default_factory=list)

    def recall(self, *kinds: str) -> float:
        """Percent of the values at risk that are kept, of these kinds or of all; 100 for none."""
        kinds = kinds or tuple(self.needed)
        needed = sum(self.needed[kind] for kind in kinds)
        return 100.0 * sum(self.kept[kind] for kind in kinds) / needed if needed else 100.0

    def bound_percent(self, source: str = RECORD) -> float:
        """Percent of the bound pairs of a source that stay bound; 100 for none."""
        pairs = self.pairs[source]
        return 100.0 * self.bound[source] / pairs if pairs else 100.0

    @property
    def share(self) -> float:
        """Tokens sent for the parts, in percent of theirs."""
        return 100.0 * self.after / self.before if self.before else 0.0


@dataclass(frozen=True)
class Risk:
    """Values that later calls need of a part that a cut compacts: single ones, and bound pairs."""

    values: tuple[tuple[str, str], ...]
    pairs: tuple[Pair, ...]
    said: tuple[Pair, ...]


class Tokens:
    """Counts o200k tokens, each text once."""

    def __init__(self) -> None:
        self._tokenizer = Tokenizer("o200k_base")
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Number of tokens a text is."""
        if text not in self._known:
            self._known[text] = self._tokenizer.count(text)
        return self._known[text]


@lru_cache(maxsize=16_384)
def plain(text: str) -> str:
    """The text without escapes, runs of white space and marks of line ends one blank."""
    bare = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    return _SPACE.sub(" ", bare.replace("\\", ""))


def holds(text: str, value: str) -> bool:
    """True if the value stands in the text as a whole."""
    position = text.find(value)
    while position >= 0:
        end = position + len(value)
        if (
            not (text[position - 1 : position].isalnum() and position)
            and not text[end : end + 1].isalnum()
        ):
            return True
        position = text.find(value, position + 1)
    return False


def stands(text: str, value: str) -> bool:
    """True if the value stands in the text in one of its spellings."""
    return any(spelling and holds(text, spelling) for spelling in value.split(SPELT))


def last_turns(dialogue: Dialogue, keep: int) -> Iterator[CompactedRange]:
    """At each turn with calls: all but the last ``keep`` turns compacted, that one counted."""
    turns = dialogue.turns
    first = _first(dialogue)
    for number, turn in enumerate(turns):
        after = turns[number + 1] if number + 1 < len(turns) else len(dialogue.messages)
        calls = tuple(index for index in range(turn, after) if index in dialogue.needs)
        if number >= keep and calls:
            yield CompactedRange(dialogue, first, turns[number + 1 - keep], calls)


def last_steps(dialogue: Dialogue, keep: int) -> Iterator[CompactedRange]:
    """At each action of an agent: all but its task and last ``keep`` steps compacted."""
    steps = [
        index for index, message in enumerate(dialogue.messages) if message["role"] == "assistant"
    ]
    first = _first(dialogue) + 1
    for number, step in enumerate(steps):
        if number >= keep and step in dialogue.needs and steps[number - keep] > first:
            yield CompactedRange(dialogue, first, steps[number - keep], (step,))


class Scale:
    """Weighs methods on the same cuts; what is at risk in a cut is found once."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self.count = count
        self._risks: dict[int, tuple[CompactedRange, Risk, int]] = {}

    def score(self, cuts: Iterable[CompactedRange], method: Method) -> Score:
        """The values that the method keeps, and its size."""
        score = Score()
        for cut in cuts:
            risk, before = self._at_risk(cut)
            if risk.values:
                sent = method(cut)
                lines = [plain(line) for line in sent]
                score.before += before
                score.after += sum(map(self.count, sent))
                _values(score, risk, "\n".join(lines), cut)
                _pairs(score, risk, lines, cut)
        return score

    def _at_risk(self, cut: CompactedRange) -> tuple[Risk, int]:
        if id(cut) not in self._risks:
            before = sum(self.count(words(message)) for message in cut.part)
            self._risks[id(cut)] = (cut, at_risk(cut), before)
        _, risk, before = self._risks[id(cut)]
        return risk, before


def at_risk(cut: CompactedRange) -> Risk:
    """The values that the cut's calls need of its part alone, a value once for each call."""
    messages = cut.dialogue.messages
    part = [plain(words(message)) for message in cut.part]
    whole = "\n".join(part)
    context = "\n".join(plain(words(message)) for message in messages[: cut.start])
    values: list[tuple[str, str]] = []
    pairs: list[Pair] = []
    index = cut.end
    for call in cut.calls:
        context = "\n".join([context, *(plain(words(said)) for said in messages[index:call])])
        index = call
        for needs in cut.dialogue.needs[call]:
            risky = [
                (kind, value)
                for kind, value in ((kind, _spelt(value)) for kind, value in needs)
                if stands(whole, value) and not stands(context, value)
            ]
            values += risky
            pairs += list(combinations([value for _, value in risky], 2))[:_PAIRS]
    held = beside(pairs, [plain(text) for text in _records(cut)])
    apart = set(held)
    said = [pair for pair in beside(pairs, part) if pair not in apart]
    return Risk(tuple(values), tuple(held), tuple(said))


def beside(pairs: Iterable[Pair], lines: Sequence[str]) -> list[Pair]:
    """The pairs of which one line holds both."""
    lines_by_value: dict[str, frozenset[int]] = {}

    def where(value: str) -> frozenset[int]:
        if value not in lines_by_value:
            lines_by_value[value] = frozenset(
                index for index, line in enumerate(lines) if stands(line, value)
            )
        return lines_by_value[value]

    return [(one, other) for one, other in pairs if where(one) & where(other)]


def _values(score: Score, risk: Risk, text: str, cut: CompactedRange) -> None:
    values: dict[str, bool] = {}
    for kind, value in risk.values:
        if value not in values:
            values[value] = stands(text, value)
        score.needed[kind] += 1
        score.kept[kind] += values[value]
        if not values[value]:
            score.lost.append(f"{cut.dialogue.name}@{cut.end}: {kind} {value}")


def _pairs(score: Score, risk: Risk, lines: Sequence[str], cut: CompactedRange) -> None:
    for source, pairs in ((RECORD, risk.pairs), (SAID, risk.said)):
        bound = beside(pairs, lines)
        score.pairs[source] += len(pairs)
        score.bound[source] += len(bound)
        whole = set(bound)
        apart = dict.fromkeys(pair for pair in pairs if pair not in whole)
        where = f"{cut.dialogue.name}@{cut.end}: {source}"
        score.parted += [f"{where} {one} | {other}" for one, other in apart]


def _records(cut: CompactedRange) -> Iterator[str]:
    """Users' texts, calls and results: each call by itself."""
    for message in cut.part:
        if message["role"] != "assistant":
            yield words(message)
        else:
            for call in message.get("tool_calls") or ():
                yield words({**message, "content": None, "tool_calls": [call]})


def _spelt(value: str) -> str:
    return SPELT.join(plain(part).strip() for part in value.split(SPELT))


def _first(dialogue: Dialogue) -> int:
    """The first message that is not the system's."""
    return next(
        index for index, message in enumerate(dialogue.messages) if message["role"] != "system"
    )
