"""Standing wishes: sentences of users, and of nobody else, that tell how things are to be done."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.region_contents import Part
from compaction.facts.sentences import sentences
from compaction.reading.message import Voice

#: Characters of a sentence that is a rule; a longer one is a text.
_LONGEST: Final = 1_000
#: Rules of one message; more of them are a document.
MOST: Final = 50
#: Words that ask for something from now on, whatever else a sentence tells.
_STANDS: Final = re.compile(
    r"""\b(?:
      from\ now\ on | at\ all\ times | under\ no\ circumstances | keep\ in\ mind | make\ sure
    | remember\ (?:to|that|not|my|this|:) | stick\ (?:to|with) | i\ want\ you\ to
    | (?:i|we)(?:'d|\ would)\ (?:rather|prefer|like\ it\ if) | (?:i|we)\ (?:always\ )?prefer
    | please\ (?:use|always|never|only|don'?t|do\ not|avoid|keep|answer|reply|respond|write|speak)
    )\b""",
    re.VERBOSE,
).search
#: The same within a clause that tells of nothing past.
_ASKS: Final = re.compile(
    r"""\b(?:
      never | always | must(?:n't)? | only | ensure | no\ longer | avoid | unless | prefer\w*
    | no\ more\ than | should(?:n't|\ not)?\ (?:be|use|have|not|never|always|only)
    | (?:don'?t|do\ not)\ (?!(?:have|know|see|think|remember|recall|understand|believe)\b)
    | (?:cannot|can't|won't|will\ not)\ (?:be|use|go|do|take|accept|pay|spend|have)\b
    | (?:just|simply)\ (?:use|keep) | stop\ \w{1,40}ing
    )"""
    r"|^(?:(?:please|so|and|but|then|instead|now|just|also)\ )*"
    r"(?:use|keep|answer|reply|respond|write|speak|ignore|treat|limit|stick|format)\b",
    re.VERBOSE,
).search
#: Where the next thing that a sentence tells begins.
_clauses: Final = re.compile(r"[,;:\u2013\u2014]\s|\s(?:but|so|and|because|since)\s").split
#: What tells of something past, or of how things are.
_PAST: Final = re.compile(
    r"""\b(?:
      was(?:n't)? | were(?:n't)? | had(?:n't)? | did(?:n't)? | got | went | said | told | came
    | gave | bought | paid | found | made | took | saw | sent | lost | broke | brought
    | thought | wrote
    | (?:i|you|we|they|it|she|he)(?:'ve|'s|\ have|\ has)\ (?:(?:only|never|always)\ )?
      \w{2,20}(?:ed|en)
    | (?:i|you|we|they|it|she|he|that|this|which)\ (?:only\ |never\ |always\ )?\w{2,20}(?<!ne)ed
    | (?:only|never|always)\ \w{2,20}(?<!ne)ed | doesn't | does\ not
    )\b""",
    re.VERBOSE,
).search
_wishes: Final = re.compile(
    r"(?:can|could|would|will) you (?:please|always|never|only|make)\b"
).match
#: An apostrophe that word processors write.
_CURLED: Final = "\u2019"


def rules(part: Part) -> Iterator[Fact]:
    """The directive sentences of each user message, verbatim; at most 50 a message."""
    for at, message in part.spoken(Voice.USER):
        turn = part.turn(at)
        for text in part.find(_directives, message.text):
            yield Fact(kind=Kind.RULE, text=text, turns=(turn,), messages=(at,), key=text)


def _directives(text: str) -> tuple[str, ...]:
    """The first directive sentences of a text."""
    return tuple(islice(filter(directs, sentences(text)), MOST))


def directs(sentence: str) -> bool:
    """True if a sentence tells how things are to be done: no question, and no report."""
    if len(sentence) > _LONGEST:
        return False
    small = sentence.lower().replace(_CURLED, "'")
    if small.endswith("?") and not _wishes(small):
        return False
    if _STANDS(small):
        return True
    return any(_ASKS(each) and not _PAST(each) for each in _clauses(small))
