"""Standing wishes: sentences of users, and of nobody else, that tell how things are to be done."""

import re
from collections.abc import Iterator
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.part import Part
from compaction.facts.sentences import sentences
from compaction.reading.message import Voice

#: Characters of a sentence that is a rule; a longer one is a text.
_LONGEST: Final = 1_000
#: Rules of one message; more of them are a document.
_MOST: Final = 50
_CUE: Final = re.compile(
    r"""\b(?:
      never | always | must(?:n't)? | only | make\ sure | ensure | please\ use | prefer\w*
    | from\ now\ on | instead | no\ longer | remember\ (?:to|that|not|my|this|:) | avoid
    | at\ all\ times | under\ no\ circumstances | unless | stick\ (?:to|with) | keep\ in\ mind
    | no\ more\ than | should(?:n't|\ not)?\ (?:be|use|have|not|never|always|only)
    | (?:don'?t|do\ not|doesn't|does\ not)\ (?!(?:have|know|see|think|remember|recall)\b)
    | (?:cannot|can't|won't|will\ not)\ (?:be|use|go|do|take|accept|pay|spend|have)\b
    | (?:just|simply)\ (?:use|keep) | stop\ \w{1,40}ing
    | (?:i|we)(?:'d|\ would)\ (?:rather|like\ it\ if)
    )""",
    re.VERBOSE,
)
#: An apostrophe that word processors write.
_CURLED: Final = "\u2019"


def rules(part: Part) -> Iterator[Fact]:
    """The directive sentences of each user message, verbatim; at most 50 a message."""
    for at, message in part.spoken(Voice.USER):
        turn = part.turn(at)
        found = (each for each in sentences(message.text) if directs(each))
        for text, _ in zip(found, range(_MOST), strict=False):
            yield Fact(kind=Kind.RULE, text=text, turns=(turn,), messages=(at,), key=text)


def directs(sentence: str) -> bool:
    """Whether a sentence tells how things are to be done."""
    if len(sentence) > _LONGEST:
        return False
    return _CUE.search(sentence.lower().replace(_CURLED, "'")) is not None
