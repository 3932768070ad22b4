"""The values of a text that later turns may need again."""

import re
from collections.abc import Iterator
from typing import Final

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, Value
from compaction.results.lossless_compression import parse_result

#: Maximum characters of a JSON string that is one value; a longer one is searched for values.
MAX_VALUE_CHARS: Final = 160
#: Maximum characters of a word; longer ones are encoded bytes or minified code.
MAX_WORD_CHARS: Final = 256
_MIN_NAME_CHARS: Final = 6
#: Characters that may follow a word and are not part of it.
TRAILING: Final = ".,;:!?)]-+@~#%"

_WORD = (
    r"[\w.@/+~%#-]+(?:://[^\s\"'<>`|\\^{}]+|:\\[\w.\\-]+)?"  # also an address, or C:\\dir
    r"|</[\w:.-]{1,64}"  # the end of an element is no path
)
_QUOTES: Final = "\"'`"
_words = re.compile(_WORD).findall
_plain_word = re.compile(r"[A-Za-z]?[a-z'-]*|[A-Z-]+|\d{1,3}|\W+").fullmatch
_identifies = re.compile(
    r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"  # an e-mail address
    r"|[A-Za-z][A-Za-z0-9+.-]*://.+"  # an address on the web
    r"|[A-Za-z]:\\.+"
    r"|(?=[^/]*/)(?=.*[A-Za-z_])[\w.@/+~%#-]+"  # a path
    r"|\.?[\w@+~#-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9}"  # a file, or a dotted name
    r"|#?\d{4,}"
    r"|(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w#][\w.+-]{2,}\w"  # digits and letters mixed
    r"|\d+(?:-\d+){2,}"
    r"|(?=\w+\Z)(?:_*[A-Za-z]\w*_\w+|_+[A-Za-z]\w+"  # snake_case
    r"|[A-Za-z]*[a-z][A-Z]\w*|[A-Z]{2,}[a-z]\w*)"  # CamelCase
).fullmatch
#: Regular expression without a match in texts that identify nothing, such as most prose.
_may_identify = re.compile(
    r"[\d_/@:.A-Z](?:(?<=[\d_/@:])|(?<=[\w@+~#-]\.)[A-Za-z]|(?<=[A-Z])(?:(?<=[a-z].)|[A-Z]))"
).search
_ordinary = re.compile(
    r"(?:19|20)\d\d"  # a year
    r"|\d{4}-\d\d-\d\d(?:[Tt][\d.:]*[Zz]?)?|\d\d?[-/.]\d\d?[-/.]\d{2,4}"  # a date
    r"|\d+(?:\.\d+)?(?:st|nd|rd|th|am|pm|AM|PM|[smhdwy]|ms|px|em|pt|[kKMGT]i?[bB]?|x|[eE][+-]?\d+)"
    r"|\d+(?:-[a-z]+)+"  # 15-minute
    r"|and/or|w/o?|n/a|N/A|i\.e|e\.g"
    r"|[A-Z][A-Za-z]*/[A-Za-z]+"  # Credit/debit
    r"|[a-z]/[a-z]|[sy]/.*"  # an expression of sed
).fullmatch
#: Removes the parts of JSON that are not values: keys, escaped line ends.
_no_values = re.compile(r"\\[nrt]|\"[\w-]{1,64}\"\s?:").sub
_letters = re.compile(r"[A-Za-z_.]+").fullmatch

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?"
_spans = re.compile(
    r"(?=[\d$€£¥(+\"'`A-Z])("
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:, ?\d{{4}}\b)?"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}}\b)?"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp]\.?[Mm]\b)?|\b\d{1,2} ?[AaPp][Mm]\b"
    r"|[$€£¥]\s?\d[\d,]{0,20}(?:\.\d{1,9})?[kKmM]?"
    r"|\b\d[\d,]{0,20}(?:\.\d{1,9})?\s?(?:%|USD\b|EUR\b|GBP\b|CHF\b)"
    r"|(?:\+\d{1,3}[ -]?)?\(\d{2,4}\) ?\d{3}[ -]\d{3,4}\b"
    r"|\+\d{1,3}(?:[ -]\d{2,4}){2,5}\b|\b\d{3}-\d{3,4}(?:-\d{4})?\b"
    r"|(?<!\w)(?:\"[^\"\n]{2,60}\"|'[^'\n]{2,60}'(?!\w)|`[^`\n]{2,60}`)"
    r"|\b[A-Z][a-z'\u2019]{1,20}(?:(?: (?:of|the|and|de|van|von|&))? [A-Z](?![\w'\u2019&-]{0,40}\d)"
    r"[\w'\u2019&-]{0,20}){1,4}"
    r"|(?<=[a-z,] )[A-Z][a-z]{2,20}\b(?![\w@./-])"
    rf")|({_WORD})"
).findall
#: Regular expression for a word that is a value: with a digit, or a code such as JFK.
_valued = re.compile(r"\D*\d.*|[A-Z]{2,5}", re.DOTALL).fullmatch
#: Regular expression for a key that is a value, not the name of a column.
_telling_key = re.compile(r"\A[^a-z_]|\d\d|[^\w.]").search


def value_leaves(text: str) -> tuple[str, ...]:
    """The values of a text, by first appearance: all of JSON, what can be told of plain words."""
    try:
        leaves = dict.fromkeys(leaf_strings(parse_result(text)))
    except CannotCompactError:
        return tuple(dict.fromkeys(_prose_values(text)))
    values: dict[str, None] = {}
    for value in leaves:
        if len(value) <= MAX_VALUE_CHARS:
            values[value] = None
        else:
            values.update(dict.fromkeys(_prose_values(value)))
    values.pop("", None)
    return tuple(values)


def find_ids(text: str) -> tuple[str, ...]:
    """The identifiers of a text, by first appearance: no words, years, dates or measures."""
    try:
        text = "\n".join(dict.fromkeys(leaf_strings(parse_result(text))))
    except CannotCompactError:
        text = _no_values(" ", text) if text[:1] == "{" else text
    if not _may_identify(text):
        return ()
    words = dict.fromkeys([word.rstrip(TRAILING) for word in dict.fromkeys(_words(text))])
    return tuple([word for word in words if is_identifier(word)])


def is_identifier(word: str) -> bool:
    """True if a word names one thing."""
    if _plain_word(word) or len(word) > MAX_WORD_CHARS or not _identifies(word):
        return False
    return not (len(word) < _MIN_NAME_CHARS and _letters(word)) and not _ordinary(word)


def leaf_strings(value: Value) -> list[str]:
    """Every string and number of a value, in order, and the keys that are values themselves.

    Raises:
        CannotCompactError: If it is nested too deep.
    """
    leaves: list[str] = []
    _gather_leaves(value, leaves, 0)
    return leaves


def _gather_leaves(value: Value, leaves: list[str], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CannotCompactError("nested too deep")
    if isinstance(value, str):
        leaves.append(value)
    elif isinstance(value, list):
        for inner in value:
            _gather_leaves(inner, leaves, depth + 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if _telling_key(key):
                leaves.append(key)
            _gather_leaves(inner, leaves, depth + 1)


def _quoted_values(span: str) -> tuple[str, ...]:
    """The quoted values; of several words those that name something, where one does."""
    bare = span.strip(_QUOTES)
    return (" " in bare and find_ids(bare)) or (bare,)


def _prose_values(text: str) -> Iterator[str]:
    """The values of plain words."""
    for span, word in dict.fromkeys(_spans(text)):
        if span:
            yield from _quoted_values(span) if span[0] in _QUOTES else (span,)
        elif not _plain_word(word) or word.isupper() or word.isdecimal():
            bare = word.rstrip(TRAILING)
            if _valued(bare) or is_identifier(bare):
                yield bare
