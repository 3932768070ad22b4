"""What the assistant said last, where the user's answer says little without it."""

import re
from collections.abc import Iterator
from typing import Final

from compaction.facts.fact import Fact, Kind
from compaction.facts.flat import capped, flat, headed
from compaction.facts.part import Part
from compaction.facts.sentences import sentences
from compaction.reading.message import Voice

#: Characters of an answer that is short.
_SHORT: Final = 40
#: Characters of a question that stay.
_QUESTION: Final = 120
#: Characters that stay of what the first message behind the part answers.
LAST: Final = 600
#: Characters of a message that are looked through for what it tells, and for its question.
_SEEN: Final = 2_000
#: What a sentence has that tells something: a figure, a name that is marked, a list, a question.
_TELLS: Final = re.compile(r"[\d?:`]|\w_\w|\b[A-Z]{2}")
#: Marks of Markdown that say nothing without its layout.
_MARKDOWN: Final = re.compile(r"\*\*|^\s*(?:[-*] |#{1,6} )", re.MULTILINE)


def asked(part: Part, most: int = LAST) -> Iterator[Fact]:
    """What the assistant said before the user's words: what tells of the last of it, up to a cap.

    Of what was said before, the questions that short answers are to.

    Args:
        part: What is folded.
        most: Characters that stay of what was said last; 0 for no more than of the rest.
    """
    messages = part.region.messages
    for at, message in part.spoken(Voice.ASSISTANT):
        answer = messages[at + 1] if at + 1 < len(messages) else None
        if answer is None or answer.voice is not Voice.USER:
            continue
        if most and at + 1 == part.region.end:
            text = capped(" ".join(_telling(message.text)), most)
        else:
            text = _question(message.text) if _is_bare(answer.text) else ""
        if text:
            yield Fact(kind=Kind.ASKED, text=text, turns=(part.turn(at),), messages=(at,))


def _telling(text: str) -> Iterator[str]:
    """The sentences of a text that name, list, count or ask something."""
    for sentence in sentences(_MARKDOWN.sub("", text[:_SEEN])):
        if _TELLS.search(sentence):
            yield sentence


def _is_bare(answer: str) -> bool:
    """Whether an answer says little without its question: a few words, and no figure."""
    return len(answer) <= _SHORT and not any(map(str.isdigit, answer))


def _question(text: str) -> str:
    """The last question of a text; "" for none."""
    questions = [each for each in sentences(text[-_SEEN:]) if each.endswith("?")]
    return headed(flat(questions[-1]), _QUESTION) if questions else ""
