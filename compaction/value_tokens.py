"""The values that a text names, and whether a text names a value: whole tokens, in any script.

A *token* is a run of letters and digits, joined by ``. - + @ ~ # /`` where more of them follow; a
date and time, a clock's time, and a number with its thousands are one. Signs of money and ``%`` are
tokens by themselves, and so is each letter of a script that is written without spaces.

A *value* is a token that holds a digit, or that looks like the name of one thing (``snake_case``,
``CamelCase``, a path, an address, a file, three to five capitals); or a phrase around one: a day
with its month's name, an amount with its currency on either side, a percentage, an hour, figures
with their counters in Chinese and Japanese. Figures are read in every script's digits, full-width
ones too; numerals that are words (三千, *thirty*) are none.

A text names a value where the value's tokens stand in it one after the other, each whole: 3000 is
not in 30005, and 30 not in 2026-04-30. 04:00, 4:00 and 04:00:00 are one time, and a path stands
where a longer one ends with it.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

#: Separates two tokens that are written without a space.
_BREAK: Final = "\x1f"
#: Scripts that are written without spaces: Han, kana, Thai, Lao, Burmese, Khmer.
SPACELESS_SCRIPTS: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_L: Final = rf"[^\W{SPACELESS_SCRIPTS}]"
_MONEY: Final = "$€£¥₹₩₽₺₴฿₫₦₪¢"
_TOKEN: Final = (
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    rf"|\d{{1,2}}:\d\d(?::\d\d)?(?:[AaPp][Mm])?(?!{_L})"
    rf"|\d{{1,3}}(?:,\d{{3}}){{1,8}}(?:\.\d{{1,9}})?(?!{_L})"
    rf"|{_L}++(?:(?:[.@+~#-]|:?/{{1,2}}){_L}++)*+"
    rf"|[{SPACELESS_SCRIPTS}]|[{_MONEY}%‰]"
)
_MONTHS: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|januar|jänner|februar|märz|mai|juni|juli|oktober|dezember"
    "|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    "|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    "|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro"
    "|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
    "|januari|februari|maart|mei|augustus|stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia"
    "|września|października|listopada|grudnia|ocak|şubat|mart|nisan|mayıs|haziran|temmuz|ağustos"
    "|eylül|ekim|kasım|aralık|січня|лютого|березня|квітня|травня|червня|липня|серпня|вересня"
    "|жовтня|листопада|грудня|يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر"
    "|نوفمبر|ديسمبر|जनवरी|फ़रवरी|फरवरी|मार्च|अप्रैल|मई|जून|जुलाई|अगस्त|सितंबर|अक्टूबर|नवंबर"
    "|दिसंबर|maret|agustus|juni|juli|desember"
    "|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|okt|nov|dec|dez"
)
_MONTH: Final = rf"(?:{_MONTHS})(?!{_L})\.?"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|er|º|ª|\.)?"
_YEAR: Final = rf"(?:,?\s{{1,3}}(?:(?:of|de)\s)?\d{{4}}(?!{_L}))"
_NUMBER: Final = r"\d{1,24}(?:[.,'\u2019]\d{1,24}){0,8}"
_CURRENCIES: Final = (
    "USD|EUR|GBP|CHF|JPY|CNY|RMB|KRW|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|TRY|BRL|MXN|ZAR|SGD|HKD|TWD"
    "|dollars?|euros?|pounds?|francs?|franken|yen|yuan|rupees?|cents?|reais|real|liras?|tl|zł|złotych"
    "|złote|kr|rp|rupiah|ribu|juta|đồng|vnd|won|baht|บาท|руб(?:л\\w+)?|грн|грив\\w+|ريال\\w*|دينار\\w*"
    "|درهم\\w*|جنيه\\w*|रुपये|रुपए|रुपया"
)
_HOURS: Final = (
    "uhr|uur|h|hrs?|o'clock|giờ|น\\.|นาฬิกา|โมง|बजे|год(?:ин\\w*)?|час(?:а|ов)?|[ap]m|[ap]\\.m\\."
)
_COUNTERS: Final = (
    "年月日号號时時分秒点點週周天元円圆圓块塊角人件个個路番号년월일시분초원명개번호층"
)
_BY_DIGIT: Final = (
    rf"{_DAY}(?:\s{{1,3}}(?:of|de|di))?[\s-]{{1,3}}{_MONTH}{_YEAR}?"
    rf"|{_NUMBER}\s?(?:[{_MONEY}%‰]|(?:{_CURRENCIES}|percent|prozent)(?!{_L})"
    rf"|(?:{_HOURS})(?!{_L})(?:\s?\d\d(?!\d))?)"
)
_BY_LETTER: Final = (
    rf"(?:{_MONTHS})(?!{_L})\.?\s{{1,3}}(?:(?:the\s)?\d{{1,2}}(?:st|nd|rd|th)?(?!{_L}|[.,:/]\d)"
    rf"{_YEAR}?|\d{{4}}(?!{_L}))"
    rf"|(?:{_CURRENCIES})\s?{_NUMBER}(?!{_L})"
)
_COUNTED: Final = rf"{_NUMBER}\s?[{_COUNTERS}](?:\s?{_NUMBER}\s?[{_COUNTERS}]){{0,7}}"
#: Its first character class holds every possible first character, which makes the search fast.
_PHRASE: Final = (
    rf"(?=\d)(?:{_BY_DIGIT}|{_COUNTED})|(?=[^\W\d_{SPACELESS_SCRIPTS}])(?:{_BY_LETTER})"
    rf"|[{_MONEY}]\s?{_NUMBER}[kKmM]?(?!{_L})|(?:上午|下午|午前|午後|早上|晚上|오전|오후)\s?{_COUNTED}"
)
_BEGINS: Final = rf"(?=[\w{_MONEY}%‰])"
_values: Final = re.compile(
    rf"{_BEGINS}(?:(?P<phrase>{_PHRASE})|(?:{_TOKEN}))", re.IGNORECASE
).finditer
_tokens: Final = re.compile(rf"{_BEGINS}(?:{_TOKEN})").findall
_names: Final = re.compile(
    r".*(?:[a-z][A-Z]|\w[@/]\w|[^\W_]_{1,4}[^\W_]).*|[A-Z]{3,5}|(?=.{6}).*[^\W\d]\.[A-Za-z]\w{0,9}",
    re.DOTALL,
).fullmatch
_is_path: Final = re.compile(r"(?=.*[./])[^\W\d].*[^\W\d]", re.DOTALL).fullmatch
_digit: Final = re.compile(r"\d").search
_letter: Final = re.compile(_L).match
#: Characters that join the text on both sides to one name, and to one figure.
_NAME_JOINS, _FIGURE_JOINS = "-", "-.,:/"
#: Words with a slash that are not names.
_ORDINARY: Final = frozenset({"and/or", "he/she", "his/her", "yes/no", "n/a", "w/o", "either/or"})
_time: Final = re.compile(r"(?<![\d.T])(?<!\d:)0?(\d{1,2})(:\d\d)(?::00)?(?![\d:])").sub
_escape: Final = re.compile(r"\\u([0-9a-fA-F]{4})").sub
_MAX_TOKEN_CHARS: Final = 4_096

#: Arabic separators of decimals and of thousands.
_SEPARATORS: Final = {0x66B: ".", 0x66C: ","}

#: A value as the tokens that it is made of.
Tokens = tuple[str, ...]


def normalize_text(text: str) -> str:
    """The text in one spelling: letters composed, digits as 0 to 9, escapes of JSON undone.

    A clock's time is without a zero before its hour, and without seconds that are none.
    """
    if "\\" in text:
        text = _escape(lambda match: chr(int(match[1], 16)), text.replace("\\\\", "\\"))
        for mark in ("\\n", "\\r", "\\t", '\\"'):
            text = text.replace(mark, " ")
        text = text.replace("\\", "/")
    if not text.isascii():
        text = "".join(
            str(unicodedata.decimal(char)) if char.isdecimal() else char
            for char in unicodedata.normalize("NFKC", text).translate(_SEPARATORS)
        )
    return _time(r"\1\2", text) if ":" in text else text


def value_tokens(written: str) -> Tokens:
    """The tokens of a value."""
    return tuple(_tokens(normalize_text(written)))


def named_values(text: str) -> Mapping[Tokens, str]:
    """The values that a text names, as they are written there, by first appearance."""
    values: dict[Tokens, str] = {}
    for match in _values(normalize_text(text)):
        if match["phrase"] is not None or _is_value(match[0]):
            written = " ".join(match[0].split()).rstrip(".")
            values.setdefault(tuple(_tokens(written)), written)
    return values


class TokenIndex:
    """The tokens of texts, to see which values they name.

    Args:
        texts: Each by itself: no value reaches from one into the next.
    """

    __slots__ = ("_row",)

    def __init__(self, texts: Iterable[str]) -> None:
        rows = [_BREAK.join(_tokens(normalize_text(text))) for text in texts]
        self._row = f"{_BREAK}{_BREAK * 2}".join(["", *rows, ""])

    def __contains__(self, value: object) -> bool:
        tokens = value if isinstance(value, tuple) else _tokens(normalize_text(str(value)))
        if not tokens:
            return False
        run = f"{_BREAK.join(tokens)}{_BREAK}"
        is_path = len(tokens) == 1 and _is_path(tokens[0]) is not None
        return f"{_BREAK}{run}" in self._row or (is_path and f"/{run}" in self._row)


def find_name(text: str, name: str, start: int = 0) -> int:
    """The place where a text holds a name as a whole; -1 where it does not.

    A name ends where a letter, a digit or a hyphen before one does not go on with it. A figure also
    ends at no sign within a longer one: 3000 is neither in 30005 nor in 3000.50 or 10:3000.
    """
    joins = _FIGURE_JOINS if name.isdecimal() else _NAME_JOINS
    position = text.find(name, start)
    while position >= 0:
        end = position + len(name)
        if not _is_joined(text, position - 1, -1, joins) and not _is_joined(text, end, 1, joins):
            return position
        position = text.find(name, position + 1)
    return -1


def _is_joined(text: str, position: int, step: int, joins: str) -> bool:
    """True if a name that ends beside a place goes on there, towards one side."""
    if not 0 <= position < len(text):
        return False
    if text[position] in joins:
        position += step
    return 0 <= position < len(text) and _letter(text[position]) is not None


def _is_value(token: str) -> bool:
    """True if a token is a figure, or the name of one thing."""
    if len(token) > _MAX_TOKEN_CHARS or token.lower() in _ORDINARY:
        return False
    return _digit(token) is not None or _names(token) is not None
