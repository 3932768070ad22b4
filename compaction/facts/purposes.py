"""What calls were for: what the assistant said right before it made them, in its own words."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from compaction.facts.flat import headed
from compaction.facts.plans import settles
from compaction.facts.region_contents import Exchange, Part
from compaction.facts.sentences import sentences
from compaction.reading.message import Voice
from compaction.reading.redaction import GONE
from compaction.reading.token_estimate import estimate

#: The share of a part's tokens that purposes may take; what a short part has in any case, and no
#: more of it than this.
_SHARE: Final = 0.02
_LEAST: Final = 150
_MOST: Final = 0.08
#: Characters of a purpose that stay.
_LONGEST: Final = 100
#: What ends one and says nothing.
_ENDS: Final = ".: "
#: Tokens around one.
_AROUND: Final = 2
#: Characters of a text that are looked through, up to where the call begins.
_SEEN: Final = 1_000
#: Characters of a call by which it is found in the text that it is written in.
_HEAD: Final = 40
#: A line that only frames what is called, and what only says that words are thoughts.
_frames: Final = re.compile(r"`{3}|~{3}|</?[\w=.-]{1,64}>|[A-Z]{2,}$|Action:").match
_THOUGHT: Final = re.compile(r"(?:THOUGHT|Thought|DISCUSSION|Reasoning):\s*")
#: How one begins that says what comes next: that it does needs no words.
_opens: Final = re.compile(
    r"(?:(?:Now|So|But|And|Also|Then|Next|First|Finally|Okay|OK|Good|Great|Perfect)\b[,.!]? )*"
    r"(?:[Ll]et me|[Ll]et['\u2019]s|(?:I|[Ww]e)(?:['\u2019]ll| will| need to| should)) "
    r"(?:(?:now|first|also|then|try to) )*"
).match
#: Two words, and no fewer: less tells of nothing.
_tells: Final = re.compile(r"[^\W\d_]{2}\W+[^\W\d_]{2}").search


def purposes(part: Part, places: Iterable[int], weight: int) -> Mapping[int, str]:
    """What the exchanges at these places were for, by place; the latest ones, as there is room.

    Of calls of one message the first one has it.

    Args:
        part: What is folded.
        places: The exchanges that are told of.
        weight: The tokens of what is folded.
    """
    room = min(max(_LEAST, weight * _SHARE), weight * _MOST)
    said = dict(part.spoken(Voice.ASSISTANT))
    first: dict[int, int] = {}
    for at in places:
        first.setdefault(part.exchanges[at].messages[0], at)
    found: dict[int, str] = {}
    for message, at in reversed(first.items()):
        text = _purpose(said[message].text, part.exchanges[at]) if message in said else ""
        cost = estimate(text) + _AROUND
        if text and cost <= room:
            room -= cost
            found[at] = text
    return found


def _purpose(text: str, each: Exchange) -> str:
    """The last sentence before a call that tells something; "" for none, and for a decision.

    Decisions have lines of their own. What a long text is cut in is no sentence. Nor is one told
    that held a secret: another may stand beside it that does not look like one.
    """
    asked = each.called.arguments[:_HEAD]
    end = text.rfind(asked) if asked else -1
    end = end if end >= 0 else len(text)
    spoken = _spoken(text[max(0, end - _SEEN) : end])
    told = [each for each in islice(spoken, int(end > _SEEN), None) if _tells(_bare(each))]
    last = told[-1] if told else GONE
    return "" if GONE in last or settles(last) is not None else headed(_bare(last), _LONGEST)


def _bare(sentence: str) -> str:
    """A sentence without what only says that something is to be done."""
    opens = _opens(sentence)
    return (sentence[opens.end() :] if opens else sentence).rstrip(_ENDS)


def _spoken(text: str) -> Iterator[str]:
    """The sentences of a text but for the lines that only frame a call."""
    for line in text.splitlines():
        if not _frames(line.strip()):
            yield from sentences(_THOUGHT.sub("", line))
