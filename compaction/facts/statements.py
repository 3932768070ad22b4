"""Facts from statements: users' messages, requests and rules, and the assistant's plans."""

import re
from collections.abc import Iterator
from itertools import dropwhile, islice
from typing import Final

from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import (
    flatten_text,
    head_and_tail_bounds,
    text_head,
    words_that_fit,
)
from compaction.language.pasted_text import (
    PASTED,
    OwnSentence,
    is_warning,
    mask_pasted,
    own_sentences,
)
from compaction.language.sentences import sentences
from compaction.language.speech_acts import is_wish
from compaction.reading.message import ParsedMessage, Voice
from compaction.results.value_leaves import find_ids

#: Maximum characters kept of a request.
_MAX_GOAL_CHARS: Final = 300


def mark_facts(part: RegionContents) -> Iterator[Fact]:
    """The goal, rules and warnings about texts, which stand whatever room there is."""
    yield from goal_facts(part)
    yield from rule_facts(part)
    yield from warning_facts(part)


def goal_facts(part: RegionContents) -> Iterator[Fact]:
    """The beginning of the first user message, if it is compacted here and all the user's own."""
    region = part.region
    for index, message in enumerate(region.messages[: region.end]):
        if message.voice is Voice.USER and message.text.strip():
            is_compacted = index >= region.start and index not in region.kept
            if is_compacted and PASTED not in part.find(mask_pasted, message.text):
                text = flatten_text(message.text)[:_MAX_GOAL_CHARS].rstrip()
                yield Fact(
                    kind=FactKind.GOAL, text=text, turns=(part.turn_of(index),), messages=(index,)
                )
            return


#: Maximum rules of one message; a message with more is a document.
MAX_RULES_PER_MESSAGE: Final = 50
_pasted: Final = re.compile(f"{PASTED}+").sub


def rule_facts(part: RegionContents) -> Iterator[Fact]:
    """The directive sentences of each user message, verbatim; at most 50 a message."""
    for index, message in part.messages_of(Voice.USER):
        turn = part.turn_of(index)
        for text in part.find(directives, message.text, part.find(mask_pasted, message.text)):
            yield Fact(kind=FactKind.RULE, text=text, turns=(turn,), messages=(index,), key=text)


def directives(text: str, masked: str = "") -> tuple[str, ...]:
    """The first directive sentences of a text, of the user's own words alone.

    Args:
        masked: The text with what is pasted masked; "" where that is not known yet.
    """
    own = (sentence for sentence in own_sentences(text, masked) if is_wish(sentence.own))
    return tuple(islice(map(_without_quoted_directives, own), MAX_RULES_PER_MESSAGE))


def _without_quoted_directives(sentence: OwnSentence) -> str:
    """A sentence as it stands there; what it quotes goes where that is a directive itself."""

    def quotation(masked: re.Match[str]) -> str:
        quoted = sentence.text[masked.start() : masked.end()]
        return "…" if any(map(is_wish, sentences(quoted))) else quoted

    return _pasted(quotation, sentence.own)


#: Maximum characters kept of a user's message: about 2,000 tokens of English.
MAX_USER_CHARS: Final = 8_000
#: Maximum characters of a user's name when several users speak.
_MAX_NAME_CHARS: Final = 64
#: Maximum characters of the ids listed from the omitted text.
_MAX_IDS_CHARS: Final = 1_600


def user_facts(part: RegionContents, max_chars: int = MAX_USER_CHARS) -> Iterator[Fact]:
    """The words of each user message: all of them, or their beginning and end where they are long.

    Args:
        part: Part that is compacted.
        max_chars: Characters of one message that stay.
    """
    for index, message in part.messages_of(Voice.USER):
        text = shorten_user_text(message.text, max_chars)
        if text:
            text = speaker_label(message) + text
            turn = part.turn_of(index)
            yield Fact(
                kind=FactKind.USER,
                text=text,
                turns=(turn,),
                messages=(index,),
                key=str(turn),
                quotes=PASTED in part.find(mask_pasted, message.text),
            )


def speaker_label(message: ParsedMessage) -> str:
    """The name of a message's user before its words; "" where it has none."""
    return f"{flatten_text(message.name)[:_MAX_NAME_CHARS]}: " if message.name else ""


def shorten_user_text(text: str, max_chars: int) -> str:
    """A message's words on one line; of a long one its ends, and the ids that were cut."""
    if len(text) <= max_chars:
        return flatten_text(text)
    first, last = head_and_tail_bounds(text, max_chars)
    gone = text[first:last]
    named = " ".join(words_that_fit(find_ids(gone), min(_MAX_IDS_CHARS, max_chars // 3)))
    cut = f"[… {len(gone)} characters cut{'; in them: ' if named else ''}{named} …]"
    return f"{flatten_text(text[:first])} {cut} {flatten_text(text[last:])}"


#: Maximum characters of a message that are scanned.
_SCANNED_CHARS: Final = 20_000
#: Maximum characters kept of a sentence that is_warning.
_MAX_WARNING_CHARS: Final = 300


def warning_facts(part: RegionContents) -> Iterator[Fact]:
    """Sentences in which the assistant warns about a text that a user pasted or a tool returned."""
    is_read = False
    for index in range(part.region.start, part.region.end):
        message = part.region.messages[index]
        if message.voice is Voice.USER:
            is_read = PASTED in part.find(mask_pasted, message.text)
        elif message.voice is Voice.RESULT:
            is_read = True
        elif is_read and index not in part.region.kept:
            text = part.find(_warning_in, message.text)
            if text:
                yield Fact(
                    kind=FactKind.REPLY, text=text, turns=(part.turn_of(index),), messages=(index,)
                )


def _warning_in(text: str) -> str:
    """The first sentence of a text that warns, and the one behind it, which may say what to do."""
    text = text[:_SCANNED_CHARS]
    if not is_warning(text):
        return ""
    every = dropwhile(lambda sentence: not is_warning(sentence), sentences(text))
    return " ".join([text_head(sentence, _MAX_WARNING_CHARS) for sentence in islice(every, 2)])
