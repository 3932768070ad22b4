"""Renders a tool call on one line; detects equal calls, and calls that change something."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from compaction.facts.rendering import flatten_text, head_and_tail, unquote_json
from compaction.reading.message import CalledTool, parse_arguments
from compaction.results.value_leaves import is_identifier

#: Regular expression for values written without quotes: no comma or bracket that would end them.
_PLAIN: Final = re.compile(r"[\w./@:+#$%~*&!?|-]+(?: [\w./@:+#$%~*&!?|-]+)*\Z").match
#: Maximum characters of a tool's name; the rest is ignored.
_MAX_NAME_CHARS: Final = 128
#: Maximum characters of a value by which one call is distinguished from another.
_SHORT_VALUE_CHARS: Final = 64
#: Maximum characters of a value that says what a call was about: an amount, a payee.
_MAX_NAME_VALUE_CHARS: Final = 20
#: Ends of the keys of ids.
ID_ENDS: Final = ("id", "number", "uuid")
#: Maximum characters of a call's key; a longer key is replaced by its digest.
_MAX_KEY_CHARS: Final = 200
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Regular expression for verbs of tools that change something.
_changes: Final = re.compile(
    r"accept|add|append|apply|approve|assign|block|book|buy|cancel|change|charge|clear"
    r"|close|commit|complete|confirm|copy|create|deactivate|decline|delete|deploy|deposit"
    r"|disable|edit|enable|enroll|exchange|execute|fill|forward|grant|insert|install"
    r"|invite|issue|launch|make|merge|modify|move|open|order|overwrite|patch|pay|place"
    r"|post|publish|purchase|push|put|record|refund|register|reject|release|remove|rename"
    r"|reply|report|request|reschedule|reserve|reset|restart|resume|return|revoke|save"
    r"|schedule|sell|send|set|share|shutdown|start|stop|submit|subscribe|swap|transfer"
    r"|trigger|undo|unsubscribe|update|upgrade|upload|withdraw|write"
).fullmatch
#: Regular expression for verbs of tools that only read.
_reads: Final = re.compile(
    r"ask|browse|calculate|check|compare|compute|convert|count|describe|display|estimate"
    r"|evaluate|explain|fetch|find|get|grep|has|inspect|is|list|load|look|lookup|open"
    r"|peek|preview|query|read|retrieve|search|select|show|think|validate|verify|view"
).fullmatch


#: Characters before and after a member of an object on a line.
_BEFORE: Final = frozenset({"", " ", "{", "["})
_BEHIND: Final = frozenset({"", " ", "}", "]"})


def call_line(called: CalledTool, max_value_chars: int, rest_of_line: str = "") -> str:
    """A call on one line: ``name(key=value, …)``, each value at most so many characters.

    Args:
        max_value_chars: Characters of a value that stay.
        rest_of_line: Rest of its line; what that says of a key is not said twice, but for the first
            value where it says all of them. The ids of a call that changes something are: a result
            may hold several of one name.
    """
    read = parse_arguments(called)
    keeps_ids = is_change(called)
    if isinstance(read, dict):
        pairs = [
            (flatten_text(key), _format_value(value, max_value_chars))
            for key, value in read.items()
        ]
        new = [
            f"{key}={value}"
            for key, value in pairs
            if (keeps_ids and _names_thing(key, value))
            or not _contains_member(rest_of_line, f"{key}:{value}")
        ]
        inner = ", ".join(new) if new else _first_short_value(pairs)
    else:
        inner = head_and_tail(flatten_text(called.arguments), max_value_chars)
    return f"{flatten_text(called.name)[:_MAX_NAME_CHARS]}({inner})"


def short_call_line(called: CalledTool, failed: CalledTool | None = None) -> str:
    """A call on one line with no arguments but its ids.

    Args:
        failed: Call that failed before; short arguments that differ from its are named, too.
    """
    before = parse_arguments(failed) if failed else None
    read = parse_arguments(called)
    named = [
        f"{flatten_text(key)}={_format_value(value, _SHORT_VALUE_CHARS)}, "
        for key, value in (read.items() if isinstance(read, dict) else ())
        if (isinstance(before, dict) and _is_short(value) and before.get(key) != value)
        or (isinstance(value, str) and _is_short(value) and _names_thing(key, value))
        or (before is None and _is_name_or_amount(value))
    ]
    return f"{flatten_text(called.name)[:_MAX_NAME_CHARS]}({''.join(named)}…)"


def _is_short(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, str | int | float) and len(str(value)) <= _SHORT_VALUE_CHARS


def _is_name_or_amount(value: Any) -> bool:  # noqa: ANN401
    """True if an argument is a number or a few words: an amount, a payee, a class."""
    if isinstance(value, bool):
        return False
    return isinstance(value, str | int | float) and len(str(value)) <= _MAX_NAME_VALUE_CHARS


def _names_thing(key: str, value: str) -> bool:
    """True if an argument names one thing: by its key, or by its form."""
    return key.lower().endswith(ID_ENDS) or is_identifier(value)


def _contains_member(line: str, member: str) -> bool:
    """True if a line says a member as a whole: ``amount:50`` is not in ``amount:500``."""
    start = line.find(member)
    while start >= 0:
        end = start + len(member)
        if line[max(start - 1, 0) : start] in _BEFORE and line[end : end + 1] in _BEHIND:
            return True
        start = line.find(member, start + 1)
    return False


def _first_short_value(pairs: Sequence[tuple[str, str]]) -> str:
    """The first of these values that is short, without its key; "" for none."""
    return next((value for _, value in pairs if len(value) <= _SHORT_VALUE_CHARS), "")


def _format_value(value: Any, max_chars: int) -> str:  # noqa: ANN401
    """A value on one line, without quotes where nothing is unclear without them."""
    if isinstance(value, str):
        text = head_and_tail(value, max_chars)
        return text if _PLAIN(text) else _to_json(text)
    return head_and_tail(unquote_json(_to_json(value)), max_chars)


def _to_json(value: Any) -> str:  # noqa: ANN401
    """A value as JSON, on one line whatever it holds."""
    try:
        return flatten_text(orjson.dumps(value).decode())
    except (TypeError, ValueError):  # nested deeper than is written
        return "…"


def call_key(called: CalledTool) -> str:
    """A key equal for calls that ask the same of the same tool; "" where it is not known."""
    if not called.name and not called.arguments:
        return ""
    read = parse_arguments(called)
    try:
        text = orjson.dumps(read, option=orjson.OPT_SORT_KEYS).decode() if read is not None else ""
    except (TypeError, ValueError):
        text = ""
    key = f"{called.name} {text or called.arguments}"
    if len(key) <= _MAX_KEY_CHARS:
        return key
    digest = blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{called.name[:_MAX_NAME_CHARS]} {digest}"


def is_change(called: CalledTool) -> bool:
    """True if a call changes something, by the verb of its name."""
    return not is_read_only(called) and any(map(_changes, _name_words(called)))


def is_read_only(called: CalledTool) -> bool:
    """True if a call only looks at something, by the verb of its name; so does one without."""
    words = _name_words(called)
    return not words or bool(_reads(words[0]))


def _name_words(called: CalledTool) -> list[str]:
    """The words that a tool's name is made of, in small letters."""
    return [word.lower() for word in _WORD.findall(called.name[:_MAX_NAME_CHARS])]


#: Minimum characters with which two similar calls both begin.
_MIN_SHARED_HEAD_CHARS: Final = 24
#: Minimum share of two similar calls' characters that are equal.
_MIN_SHARED_SHARE: Final = 0.6
#: Maximum characters searched for a word's boundary, so that no word is split.
_MAX_WORD_CHARS: Final = 40


class CallFormatter:
    """Says calls one after the other; one like an earlier one by what is other in it."""

    def __init__(self, max_value_chars: int) -> None:
        self._most = max_value_chars
        self._whole: dict[tuple[str, str], str] = {}

    def __call__(self, called: CalledTool) -> str:
        """The call on one line, each value at most so many characters."""
        read = parse_arguments(called)
        name, text = _longest_argument(read, called.arguments)
        if len(text) <= self._most:
            return call_line(called, self._most)
        kind = (called.name, text[:_MIN_SHARED_HEAD_CHARS])
        other = _difference(self._whole.get(kind, ""), text)
        if not other:
            self._whole[kind] = text
            return call_line(called, self._most)
        short = f"{text[:_MIN_SHARED_HEAD_CHARS]}… as above, but …{other}…"
        written = orjson.dumps({**read, name: short}).decode() if name else short
        return call_line(
            msgspec.structs.replace(called, arguments=written),
            self._most + 2 * _MIN_SHARED_HEAD_CHARS,
        )


def _longest_argument(read: Any, raw: str) -> tuple[str, str]:  # noqa: ANN401 # whatever JSON the model wrote
    """The longest text among arguments with its name; without one the unmodified arguments."""
    if not isinstance(read, dict):
        return "", raw
    texts = [(key, value) for key, value in read.items() if isinstance(value, str)]
    return max(texts, key=lambda text: len(text[1]), default=("", ""))


def _difference(base: str, text: str) -> str:
    """The words in which a text differs from one like it; "" where many do."""
    first = _shared_prefix_length(base, text, len(base), len(text))
    rest = min(len(base), len(text)) - first
    last = _shared_prefix_length(base[::-1], text[::-1], rest, rest)
    if first + last < _MIN_SHARED_SHARE * len(text):
        return ""
    start = max(text.rfind(" ", 0, first + 1), first - _MAX_WORD_CHARS, 0)
    end = text.find(" ", len(text) - last)
    near = len(text) - last + _MAX_WORD_CHARS
    return text[start : min(end if end > 0 else near, near)].strip() or text[-_MAX_WORD_CHARS:]


def _shared_prefix_length(one: str, other: str, most_one: int, most_other: int) -> int:
    """Number of characters two texts begin with alike, at most so many."""
    low, high = 0, min(most_one, most_other)
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
