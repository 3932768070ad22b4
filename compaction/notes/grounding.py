"""The grounding check: compares a sentence's ids, words and quotes with the conversation."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import Final

#: Punctuation that a model may put around a token, which is removed.
_AROUND: Final = "\"'`“”‘’«».,;:!?()[]{}<>…*"  # noqa: RUF001
#: Regular expression for tokens that a note must copy exactly: digits, paths, addresses, code.
_EXACT: Final = re.compile(r"[\d_/@\\#$€£%=~|^+]|\w[.:]\w|\w-\w+-\w")
_QUOTED: Final = re.compile(r"\"([^\"\n]{2,200})\"|`([^`\n]{2,200})`|“([^”\n]{2,200})”")
_WORD: Final = re.compile(r"[^\W\d_]{4,40}")
_SPACE: Final = re.compile(r"\s+")
#: Characters at a word's beginning that are compared: "booked" matches "booking".
_STEM_CHARS: Final = 4
#: Minimum share of a note's words that must occur in the conversation.
_MIN_SAID_SHARE: Final = 0.6
#: Regular expression for words of an order. They must occur in a person's message.
_ORDERS: Final = re.compile(
    r"(?i)\b(always|never|must|ignore|disregard|obey|instead|should|shall|forget|override"
    r"|do not|don't|from now on|make sure|be sure|remember to|system prompt|instructions?)\b"
)
#: Regular expression for the end of a sentence: after its mark, or at an empty line. Possessive, so
#: that no run of white space is read twice.
_END: Final = re.compile(r"[^\s.]{2}[.!?][\"')\]]?\s++|\n[^\S\n]*+\n\s*+|[。！？]")  # noqa: RUF001
#: Regular expression for abbreviations after which a sentence continues.
_SHORT: Final = re.compile(r"(?i)\b(?:mrs?|ms|dr|st|vs|no|nr|ca|cf|etc|approx)\.\s*\Z")
#: Regular expression for the beginning of text that continues a sentence: lower case, or an item of
#: a list, which is understood only with its heading.
_ON: Final = re.compile(r"[a-z*•–\d-]")  # noqa: RUF001
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/nrtbf]))')
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def on_one_line(text: str) -> str:
    """The text on one line, one space between words."""
    return _SPACE.sub(" ", text).strip()


def unescape_json(text: str) -> str:
    """The text with the escapes of JSON strings undone: what a reader of it would copy."""
    return _ESCAPE.sub(_unescaped_character, text) if "\\" in text else text


def verbatim_tokens(sentence: str) -> Iterator[str]:
    """The tokens of a sentence that its source must hold verbatim: quotes, ids, numbers, paths."""
    for match in _QUOTED.finditer(sentence):
        yield on_one_line(match[1] or match[2] or match[3])
    for piece in sentence.split():
        token = piece.strip(_AROUND)
        token = token.removesuffix("'s").removesuffix("’s")  # noqa: RUF001
        if _EXACT.search(token) or any(map(str.isupper, token[1:])):
            yield token


def holds_token(token: str, source: str) -> bool:
    """True if a source holds the token by itself: "12" stands neither in "4125" nor in "12.50"."""
    return _token_position(token, source) >= 0


def word_stems(text: str) -> frozenset[str]:
    """The beginnings of a text's longer words, the same in all their forms."""
    return frozenset(word[:_STEM_CHARS] for word in _WORD.findall(text.casefold()))


def is_worded_from(sentence: str, stems: Collection[str]) -> bool:
    """True if most words of a sentence are among the stems that were said."""
    words = word_stems(sentence)
    return sum(word in stems for word in words) >= _MIN_SAID_SHARE * len(words)


def order_words(sentence: str) -> frozenset[str]:
    """The words of an order that a sentence has, in small letters."""
    return frozenset(word.casefold() for word in _ORDERS.findall(sentence))


def whole_sentences(quote: str, source: str) -> str:
    """The whole sentences of a source that a quote of it is from; "" where it is not from there.

    Half a sentence may say the contrary: "book first class" of "never book first class".
    """
    passages = [on_one_line(passage) for passage in _passages(source)]
    text = " ".join(passages)
    position = _token_position(quote, text)
    if position < 0:
        return ""
    ends = list(accumulate(len(passage) + 1 for passage in passages))
    first, last = bisect_right(ends, position), bisect_right(ends, position + len(quote) - 1)
    return " ".join(passages[first : last + 1])


def _passages(source: str) -> Iterator[str]:
    """The sentences of a text, as they stand; a heading goes with what it heads."""
    start = 0
    for match in _END.finditer(source):
        if _ends_sentence(source, match):
            yield source[start : match.end()]
            start = match.end()
    yield source[start:]


def _ends_sentence(source: str, match: re.Match[str]) -> bool:
    """True if a sentence ends there indeed."""
    before = source[max(0, match.start() - 8) : match.start()]
    mark = (before + match[0].rstrip())[-8:]
    goes_on = _ON.match(source, match.end()) or mark.rstrip()[-1:] == ":" or _SHORT.search(mark)
    return not goes_on


def _token_position(token: str, source: str) -> int:
    """The place where a source holds the token by itself; -1 for nowhere."""
    position = source.find(token)
    while position >= 0 and not _is_apart(source, position, position + len(token)):
        position = source.find(token, position + 1)
    return position


def _is_apart(source: str, start: int, end: int) -> bool:
    """True if what stands there is no part of a longer word or number."""
    before, after = source[max(0, start - 2) : start], source[end : end + 2]
    return not (
        _continues_token(before[::-1], source[start]) or _continues_token(after, source[end - 1])
    )


def _continues_token(beside: str, edge: str) -> bool:
    """True if the characters next to a token's edge, the nearest first, go on with it."""
    if not beside or not edge.isalnum():
        return False
    if beside[0].isalnum() or beside[0] == "_":
        return True
    return edge.isdigit() and beside[0] in ".," and beside[1:].isdigit()


def _unescaped_character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2])
