"""Prunes JSON results: keeps ids, amounts, dates, times, states and names.

Other fields (parts of addresses, prose, counts) are left out of all objects of a result alike,
unless the conversation mentions them. Of a long list of objects the first ones stay, and those that
are mentioned.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Final

import msgspec

from compaction.reading.message import CannotCompactError
from compaction.results.json_values import MAX_DEPTH, Number, Value
from compaction.results.value_leaves import is_identifier, leaf_strings, value_leaves

#: The words of the messages.
MentionedWords = frozenset[str]
#: The keys that lead to a value, without positions in lists.
_Path = tuple[str, ...]


class PruningDetail(msgspec.Struct, frozen=True):
    """The amount of a value that stays.

    Attributes:
        first: Objects of a list that stay whether they were spoken of or not.
        short: Lists up to so long stay whole.
        names: True if names and states that nobody mentioned stay, beside ids, amounts and dates.
        prose: Letters of the sentences that stay of one string which nobody spoke of.
    """

    first: int
    short: int
    names: bool
    prose: int


PRUNED: Final = PruningDetail(first=3, short=8, names=True, prose=200)
VALUES: Final = PruningDetail(first=3, short=5, names=False, prose=120)
#: The detail when few tokens are available: rows that messages mention, and the first row.
SPOKEN: Final = PruningDetail(first=1, short=1, names=False, prose=120)

#: Minimum characters of a string that is prose, whose names may be needed.
_MIN_PROSE_CHARS: Final = 40
#: Minimum characters of a value that counts as mentioned; a shorter one is matched by chance.
_MIN_MENTIONED_CHARS: Final = 3
_words = re.compile(r"[^\s\"'`,;:()\[\]{}<>|=]+").findall
_parts = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])").findall
#: Regular expression for words in keys whose values are kept.
_tells_of = re.compile(
    r"ids?|uuid|number|code|date|day|time|dob|names?|status|state|title|subject|location|email"
    r"|amounts?|prices?|total|cost|fee|fare|balance"
).fullmatch
#: Regular expression for words in keys of columns that hold ids, amounts and dates.
_values_of = re.compile(
    r"ids?|uuid|number|code|date|dob|names?|title|subject|location|amounts?|prices?|total|cost"
    r"|fee|fare|balance"
).fullmatch
_code = re.compile(r"[A-Z]{2,5}").fullmatch
#: Regular expression for words in keys whose values only say where something is.
_places = re.compile(
    r"address|street|zip|postal|postcode|province|country|latitude|longitude|lat|lng|url"
).fullmatch
_state = re.compile(r"[A-Za-z][A-Za-z_-]{0,19}").fullmatch
_figures = re.compile(r"\d.*\d", re.DOTALL).search
_figure = re.compile(r"\d").search
_sentences = re.compile(r"(?<=\D[.!?])\s+|\n\s*|(?<=[\u3002\uff01\uff1f])").split
_dated = re.compile(r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d|[$€£]\s?\d").match


def text_words(text: str) -> MentionedWords:
    """The words of a text, without the stops behind them."""
    return frozenset([word.rstrip(".!?") for word in {*_words(text)}])


def telling_values(
    value: Value,
    mentioned: MentionedWords,
    capped: Callable[[str], str],
    details: Sequence[PruningDetail] = (PRUNED,),
) -> list[Value]:
    """The telling members of a value in each degree of detail; all where nothing would be left.

    Args:
        value: Result of the call.
        mentioned: Words that were mentioned.
        capped: Says a long string shorter.
        details: Amounts of detail that stay.

    Raises:
        CannotCompactError: If it is nested too deep.
    """
    columns: dict[_Path, list[str]] = {}
    _gather_cells(value, (), columns, 0)
    kept_paths = {
        names: {
            path
            for path, cells in columns.items()
            if _is_column_kept(path, cells, mentioned, has_names=names)
        }
        for names in {detail.names for detail in details}
    }
    return [
        _prune_value(value, (), kept_paths[detail.names], _member_format(mentioned, capped, detail))
        or value
        for detail in details
    ]


class _MemberFormat(msgspec.Struct, frozen=True):
    """The formatting of the members that stay.

    Attributes:
        some: Those of a list that stay.
        named: Returns what is said of a member that tells nothing.
        capped: Says a long string shorter.
    """

    some: Callable[[list[Value]], list[Value]]
    named: Callable[[Value], Value]
    capped: Callable[[str], str]


def _member_format(
    mentioned: MentionedWords, capped: Callable[[str], str], detail: PruningDetail
) -> _MemberFormat:
    """The formatting of members in one degree of detail."""
    return _MemberFormat(
        some=lambda items: _sample_items(items, mentioned, detail),
        named=lambda member: _naming_sentences(member, detail.prose),
        capped=capped,
    )


def _gather_cells(value: Value, path: _Path, columns: dict[_Path, list[str]], depth: int) -> None:
    """The strings and numbers of a value by the names on the way to them."""
    if depth > MAX_DEPTH:
        raise CannotCompactError("nested too deep")
    if isinstance(value, str):
        columns.setdefault(path, []).append(value)
    elif isinstance(value, list):
        for inner in value:
            _gather_cells(inner, path, columns, depth + 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _gather_cells(inner, (*path, name), columns, depth + 1)


def _is_column_kept(
    path: _Path, cells: Sequence[str], mentioned: MentionedWords, *, has_names: bool
) -> bool:
    """True if a column is kept: for its name, for what stands in it, or as it was spoken of."""
    parts = {part.lower() for name in path for part in _parts(name[:80])}
    if any(_is_mentioned(cell, mentioned) for cell in cells) or (path and _is_key(path[-1])):
        return True
    if any(map(_places, parts)):
        return False
    if not has_names:
        return any(map(_values_of, parts)) or any(map(_is_value, cells))
    return any(map(_tells_of, parts)) or any(map(_is_telling_value, cells))


def _is_key(name: str) -> bool:
    """True if a name of a member is a value itself: an account, an address of mail."""
    is_word = name.isidentifier() and not _figures(name)
    return not is_word and is_identifier(name)


def _is_value(cell: str) -> bool:
    """True if a value names something, is a date, a time or money."""
    if isinstance(cell, Number):
        return is_identifier(cell)
    return is_identifier(cell) or bool(_dated(cell) or _code(cell))


def _is_telling_value(cell: str) -> bool:
    """True if a value names something, is a state, a date, a time or money."""
    if isinstance(cell, Number):
        return is_identifier(cell)
    return bool(_state(cell) or _dated(cell)) or is_identifier(cell)


def _is_mentioned(cell: str, mentioned: MentionedWords) -> bool:
    return len(cell) >= _MIN_MENTIONED_CHARS and all(
        word.rstrip(".!?") in mentioned for word in _words(cell)
    )


def _prune_value(
    value: Value, path: _Path, keeps: Container[_Path], format_: _MemberFormat
) -> Value:
    if isinstance(value, str):
        return value if isinstance(value, Number) else format_.capped(value)
    if isinstance(value, list):
        stays = format_.some(value)
        pruned = [_prune_value(element, path, keeps, format_) for element in stays]
        return pruned if len(stays) == len(value) else _with_count(pruned, len(value))
    if not isinstance(value, dict):
        return value
    members: dict[str, Value] = {}
    for name, member in value.items():
        below = (*path, name)
        is_left = below not in keeps and _is_column(member)
        inner = format_.named(member) if is_left else _prune_value(member, below, keeps, format_)
        if inner not in _SILENT or (inner == {} and _figure(name)):
            members[name] = inner
    return members


def _naming_sentences(value: Value, max_chars: int) -> Value:
    """The sentences of prose that name something; nothing of shorter strings, or of lists.

    What a sentence names stays within it, which says what it is of.

    A list of which some stays would stand beside others in another order than it came in.
    """
    if not isinstance(value, str) or isinstance(value, Number) or len(value) < _MIN_PROSE_CHARS:
        return ""
    naming_sentences = [
        sentence.strip() for sentence in _sentences(value) if value_leaves(sentence)
    ]
    return " ".join(_sentences_that_fit(naming_sentences, max_chars))


def _sentences_that_fit(sentences: Sequence[str], max_chars: int) -> Iterator[str]:
    """Of these sentences, whole, what there is room for."""
    for sentence in sentences:
        if len(sentence) <= max_chars:
            max_chars -= len(sentence)
            yield sentence


def _is_column(value: Value) -> bool:
    """True if it is a string, or a list of them."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(element, str) for element in value)
    return isinstance(value, str)


def _with_count(items: list[Value], total: int) -> Value:
    """Some of a list, and how many there were."""
    return {f"some of {total}": items}


def _sample_items(
    items: list[Value], mentioned: MentionedWords, detail: PruningDetail
) -> list[Value]:
    """The first of a long list of objects, and those spoken of by what few of them say."""
    if len(items) <= detail.short or not all(isinstance(item, dict | list) for item in items):
        return items
    item_texts = [
        {leaf for leaf in leaf_strings(item) if not isinstance(leaf, Number)} for item in items
    ]
    times = Counter([text for texts in item_texts for text in texts])
    named = {
        text
        for text, times in times.items()
        if 2 * times <= len(items) and _is_mentioned(text, mentioned)
    }
    return [
        item
        for index, (item, texts) in enumerate(zip(items, item_texts, strict=True))
        if index < detail.first or not named.isdisjoint(texts)
    ]


_SILENT: Final[tuple[Value, ...]] = (None, False, "", [], {})
