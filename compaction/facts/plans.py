"""What the assistant settled on, and what of it is done."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import headed
from compaction.facts.region_contents import Part
from compaction.facts.sentences import sentences
from compaction.reading.message import Voice

#: Characters of a line that stay.
_LONGEST: Final = 200
#: Lines of a message.
_MOST: Final = 4
#: Characters of a message that are looked through.
_SEEN: Final = 20_000
_DONE: Final = re.compile(r"[-*]? ?\[[xX✓]\] |(?:DONE|✅|✓)[: ]")
_TODO: Final = re.compile(
    r"[-*]? ?\[ \] |TODO\b|(?:Next(?: steps?)?|Remaining|Still to do)\b ?[:,]"
)
_DECIDES: Final = (
    *("decided", "decision", "chose", "instead of", "rather than", "root cause", "turns out"),
    *(
        "bug is",
        "bug was",
        "fix is",
        "fix was",
        "problem is",
        "problem was",
        "issue is",
        "issue was",
    ),
)
#: A text without any of these has nothing to tell, in small letters.
_SIGNS: Final = (
    *_DECIDES,
    "[x]",
    "[ ]",
    "[✓]",
    "todo",
    "next",
    "done",
    "✅",
    "✓",
    "remaining",
    "still to do",
)
_KINDS: Final = ((Kind.DONE, _DONE.match), (Kind.TODO, _TODO.match))


def plans(part: Part) -> Iterator[Fact]:
    """Lines of the assistant's that say what is done, to be done or decided; four a message."""
    for at, message in part.spoken(Voice.ASSISTANT):
        for kind, text in part.find(_settled, message.text):
            yield Fact(kind=kind, text=text, turns=(part.turn(at),), messages=(at,))


def _settled(text: str) -> tuple[tuple[Kind, str], ...]:
    """The first lines of a text that settle something, and what each of them tells of."""
    text = text[:_SEEN]
    small = text.lower()
    if not any(map(small.__contains__, _SIGNS)):
        return ()
    told = ((settles(sentence), sentence) for sentence in sentences(text))
    found = ((kind, headed(sentence, _LONGEST)) for kind, sentence in told if kind is not None)
    return tuple(islice(found, _MOST))


def settles(sentence: str) -> Kind | None:
    """What a sentence tells of: done, to be done, decided; None for neither."""
    sentence = sentence[:_LONGEST]
    for kind, tells in _KINDS:
        if tells(sentence):
            return kind
    small = sentence.lower()
    return Kind.DECISION if any(map(small.__contains__, _DECIDES)) else None
