"""Facts from the assistant's replies: offers, promises and outcomes that later messages need."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum, IntEnum, auto
from typing import Final

import msgspec

from compaction.facts.fact import Fact, FactKind
from compaction.facts.region_contents import RegionContents
from compaction.facts.rendering import flatten_text, text_head
from compaction.facts.statements import settled_kind
from compaction.facts.values import KeptWords, figure_words
from compaction.language.sentences import sentences
from compaction.reading.message import ParsedMessage, Voice

#: Maximum characters of a user's answer that counts as agreeing when it holds no digit.
_SHORT_ANSWER_CHARS: Final = 40
#: Maximum characters of a user's answer that may need the question to be understood; a longer
#: answer is understood alone.
_MAX_REFERRING_ANSWER_CHARS: Final = 120
#: Maximum characters of a user's answer that picks an option by its letter or number.
_MAX_LETTER_ANSWER_CHARS: Final = 20
_chooses: Final = re.compile(
    r"""\b(?:
      (?:the|that|this|your|my)\ (?:very\ )?(?:first|second|third|fourth|fifth|last|other|former
        | latter|next|one|ones|cheap\w{0,4}|early|earli\w{1,3}|lat\w{1,3}|fast\w{0,3}|direct)
    | option | both | either | neither | (?:first|second|third|last|other|former|latter)\ one
    | take\ (?:it|that) | number\ (?:one|two|three|\d)
    )\b""",
    re.VERBOSE,
).search
_letter: Final = re.compile(r"(?:\w+ ){0,2}\(?(?:[a-f]|\d)[).!]*(?: please[.!]?)?").fullmatch


class ReferenceStrength(IntEnum):
    """The degree to which an answer needs what it answers."""

    NOT = 0
    AGREES = 1  #: It says yes or no, or is only a few words: the question gives it its sense.
    CHOOSES = 2  #: It names one of several by its place or its letter.


def reference_strength(answer: str) -> ReferenceStrength:
    """The degree to which an answer needs what it answers."""
    if len(answer) > _MAX_REFERRING_ANSWER_CHARS:
        return ReferenceStrength.NOT
    small = answer.strip().lower()
    if _chooses(small) or (len(small) <= _MAX_LETTER_ANSWER_CHARS and _letter(small)):
        return ReferenceStrength.CHOOSES
    says_more = len(small) > _SHORT_ANSWER_CHARS or any(map(str.isdigit, small))
    return ReferenceStrength.NOT if says_more else ReferenceStrength.AGREES


#: Maximum characters kept of the assistant's last reply in the region when the first message after
#: the region answers it.
MAX_REPLY_CHARS: Final = 450
#: Maximum characters kept of each of the newest replies, the number of newest replies, and maximum
#: characters kept of each older reply.
_NEW_TEXT_CHARS, _NEWEST_TEXTS, _OLD_TEXT_CHARS = 300, 3, 160
#: Maximum characters kept of a reply when only questions are kept.
_QUESTION_CHARS: Final = 120
#: Maximum characters read at each end of a message.
_SCANNED_CHARS: Final = 2_000
#: Minimum characters of room for a further sentence; a shorter excerpt could not be understood.
_MIN_CUT_CHARS: Final = 40
#: Regular expression for signs of a sentence worth keeping: a figure, an identifier, a code, a
#: list, a question. Its first character class, as in the expressions below, holds every possible
#: first character, which makes the search fast.
_TELLS: Final = re.compile(
    r"[\d?:`_A-Z](?:(?<=[\d?:`])|(?<=\w_)(?=\w)|(?<=[A-Z])(?<!\w.)[A-Z])"
).search
_OFFERS: Final = re.compile(r"\b(?:or|either|suggest|recommend|offer|found|options?)\b").search
#: Strings of which a text with Markdown holds at least one; other texts are not searched for it.
_MARKS: Final = ("**", "- ", "* ", "# ")
#: Regular expressions for Markdown's marks, which are removed, and for numbers of list items, whose
#: dots would end a sentence.
_MARKDOWN: Final = re.compile(r"\*\*|^[^\S\n]*(?:[-*] |#{1,6} )", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^[^\S\n]*(\d{1,3})\.(?= )", re.MULTILINE)
_OF_CHANGE: Final = (
    r"(?:booked|cancell?ed|refunded|sent|re-?sent|confirmed|noted|reserved|ordered|paid|scheduled"
    r"|rescheduled|updated|changed|created|added|removed|fixed|moved|transferred|issued|approved"
    r"|declined|rejected|asked|told|forwarded|escalated|upgraded|exchanged|returned)"
)
#: Regular expression for a promise or an offer: "I'll …", "we can …".
_promises: Final = re.compile(
    r"[IWw](?<!\w.)(?:(?<=I)|(?<=[Ww])e)(?:'ll|\u2019ll| will| can| could)(?: also| then| now)? "
    r"(?!(?:certainly |gladly |definitely |be )?"
    r"(?:help|assist|need|happy|glad|able|see|understand|proceed|provide|confirm|find|look"
    r"|process|guide|only|not|never|transfer|address|do (?:that|this|my best)"
    r"|make the necessary)\b)\w"
).search
#: Regular expressions for outcomes, in lower case: "booked …" at the beginning of a sentence, "we
#: have booked", "is now booked".
_begins: Final = re.compile(rf"(?:all )?(?:{_OF_CHANGE}|done|understood|agreed)\b").match
_by_us: Final = re.compile(
    r"[iw](?<!\w.)(?:(?<=i)|(?<=w)e)"
    rf"(?:'ve|\u2019ve| have)? (?:now |just |already |successfully )?{_OF_CHANGE}\b"
).search
_by_now: Final = re.compile(
    r"[iah](?<!\w.)(?:(?<=i)s now|(?<=a)re now|(?<=h)as been|(?<=h)ave been)"
    rf"(?: now| successfully)? {_OF_CHANGE}\b"
).search
#: Letters outside ASCII that are replaced by the i or s to which they correspond in another case.
_CASES: Final = {0x130: "i", 0x131: "i", 0x17F: "s"}
#: Regular expression for beginnings of sentences that ask for something without a question mark, or
#: depend on the answer.
_waits: Final = re.compile(r"(?:please|once|if you|take your|feel free)\b", re.IGNORECASE).match
#: Ranks of sentences, the highest first: a question that was answered, options to choose from, an
#: outcome or promise, a new value.
_QUESTION_WORTH, _OPTIONS_WORTH, _COMMITMENT_WORTH, _VALUE_WORTH = 4, 3, 2, 1


class _Tone(Enum):
    """The kind of a sentence."""

    ASKS = auto()
    WAITS = auto()  #: It asks for something without a question.
    PROMISES = auto()
    TELLS = auto()  #: Of what came about.
    SAYS = auto()  #: Anything else.


class _Sentence(msgspec.Struct, frozen=True, gc=False):
    """A sentence to the user.

    Attributes:
        tone: Purpose of it.
        figures: Its values; none where it asks, waits or promises.
    """

    text: str
    tone: _Tone
    figures: tuple[str, ...]


class _TextContext(msgspec.Struct, frozen=True):
    """The context of a text: what it refers to, and which lines stand already.

    Attributes:
        refers: Strength of the user's reference to it.
        acted: True if a call that changed something is told of beside it.
        stands: Words that stand elsewhere; None where only the question of an answer is wanted.
        commits: True if promises and outcomes are wanted too.
    """

    refers: ReferenceStrength
    acted: bool
    stands: KeptWords | None
    commits: bool


def assistant_reply_facts(
    part: RegionContents, max_chars: int = MAX_REPLY_CHARS, kept_words: KeptWords | None = None
) -> Iterator[Fact]:
    """Of each text to the user the sentences that later words lean on, up to a cap.

    Args:
        part: Part that is compacted.
        max_chars: Characters that stay of the newest texts; 0 for no more anywhere than questions,
            and values where it is given what stands.
        kept_words: The lines beside these; values that they hold need no sentence, and what is kept
            is added to it.
    """
    replies = [
        reply for reply in part.messages_of(Voice.ASSISTANT) if reply[1].text and not reply[1].calls
    ]
    acted = {exchange.turn for exchange in part.exchanges if exchange.is_action}
    kept_words = kept_words or (KeptWords("") if max_chars else None)
    for left, (index, message) in zip(range(len(replies), 0, -1), replies, strict=True):
        answer = _user_answer(part, index)
        around = _TextContext(
            refers=reference_strength(answer.text) if answer else ReferenceStrength.NOT,
            acted=part.turn_of(index) in acted,
            stands=kept_words,
            commits=max_chars > 0,
        )
        if max_chars and answer is not None and index + 1 == part.region.end:
            them = list(_telling_sentences(message.text))
            text = _worthiest_sentences(
                them, [1 + sentence.endswith("?") for sentence in them], max_chars
            )
        else:
            room = (
                (_NEW_TEXT_CHARS if left <= _NEWEST_TEXTS else _OLD_TEXT_CHARS)
                if kept_words is not None
                else _QUESTION_CHARS
            )
            text = _referenced_sentences(part.find(_analyze_sentences, message.text), around, room)
        if text:
            if kept_words:
                kept_words.add_line(text)
            yield Fact(
                kind=FactKind.ASKED, text=text, turns=(part.turn_of(index),), messages=(index,)
            )


def _user_answer(part: RegionContents, index: int) -> ParsedMessage | None:
    """The user's words right behind a message."""
    messages = part.region.messages
    answer = messages[index + 1] if index + 1 < len(messages) else None
    return answer if answer is not None and answer.voice is Voice.USER else None


def _telling_sentences(text: str) -> Iterator[str]:
    """The sentences of a text that name, list, count or ask something, or tell what came about."""
    for sentence in _sentences(text):
        if _TELLS(sentence) or _states_outcome(sentence) or _promises(sentence):
            yield sentence


def _states_outcome(sentence: str) -> bool:
    """True if a sentence tells of something that has come about."""
    small = (sentence if sentence.isascii() else sentence.translate(_CASES)).lower()
    return bool(_begins(small) or _by_us(small) or _by_now(small))


def _sentences(text: str) -> list[str]:
    """The sentences of a text, without its layout."""
    excerpt = (
        text
        if len(text) <= 2 * _SCANNED_CHARS
        else f"{text[:_SCANNED_CHARS]}\n{text[-_SCANNED_CHARS:]}"
    )
    bare = _MARKDOWN.sub("", excerpt) if any(map(excerpt.__contains__, _MARKS)) else excerpt
    return list(sentences(_NUMBERED.sub(r"\1)", bare)))


def _analyze_sentences(text: str) -> tuple[_Sentence, ...]:
    """The sentences of a text, with what may lean on each."""
    return tuple([_Sentence(sentence, *_sentence_tone(sentence)) for sentence in _sentences(text)])


def _sentence_tone(sentence: str) -> tuple[_Tone, tuple[str, ...]]:
    """The kind of a sentence, and its figures where they may matter."""
    if sentence.endswith("?"):
        return _Tone.ASKS, ()
    if _waits(sentence):
        return _Tone.WAITS, ()
    if _promises(sentence):
        return _Tone.PROMISES, ()
    return _Tone.TELLS if _states_outcome(sentence) else _Tone.SAYS, figure_words(sentence)


def _referenced_sentences(
    sentences: Sequence[_Sentence], context: _TextContext, max_chars: int
) -> str:
    """The sentences of a text that something leans on; "" for none."""
    worth = [_sentence_worth(sentence, context) for sentence in sentences]
    worth = [
        score and score * (settled_kind(sentences[index].text) is None)
        for index, score in enumerate(worth)
    ]
    return (
        _worthiest_sentences([sentence.text for sentence in sentences], worth, max_chars)
        if any(worth)
        else ""
    )


def _sentence_worth(sentence: _Sentence, context: _TextContext) -> int:
    """The worth of a sentence; 0 for none."""
    tone = sentence.tone
    if tone is _Tone.ASKS:
        return _QUESTION_WORTH if context.refers else 0
    if (
        context.refers is ReferenceStrength.CHOOSES
        and tone is not _Tone.WAITS
        and _may_list_options(sentence.text)
    ):
        return _OPTIONS_WORTH
    return (
        0 if context.stands is None or tone is _Tone.WAITS else _statement_worth(sentence, context)
    )


def _may_list_options(sentence: str) -> bool:
    """True if a sentence may be of what there is to choose from."""
    return bool(_TELLS(sentence) or _OFFERS(sentence))


def _statement_worth(sentence: _Sentence, context: _TextContext) -> int:
    """The worth of a sentence for a promise, an outcome or a value in it."""
    tells = sentence.tone is _Tone.TELLS and not context.acted
    if context.commits and (tells or sentence.tone is _Tone.PROMISES):
        return _COMMITMENT_WORTH
    stands = context.stands or ()
    return _VALUE_WORTH if any(figure not in stands for figure in sentence.figures) else 0


def _worthiest_sentences(sentences: Sequence[str], worth: Sequence[int], room: int) -> str:
    """The sentences that are worth most in so many characters, in their order."""
    heads: dict[int, str] = {}
    for index in sorted(range(len(sentences)), key=lambda index: (-worth[index], index)):
        if not worth[index] or (heads and room < _MIN_CUT_CHARS):
            break
        heads[index] = text_head(flatten_text(sentences[index]), room)
        room -= len(heads[index]) + 1
    return " ".join([heads[index] for index in sorted(heads)])
