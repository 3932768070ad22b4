"""Tool calls: how they are said in a line, when two are the same, and which change something."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson

from compaction.facts.flat import capped, flat
from compaction.facts.unquoted import unquoted
from compaction.reading.message import Called

#: Words that a value without quotes may be made of: no comma or bracket that would end it.
_PLAIN: Final = re.compile(r"[\w./@:+#$%~*&!?|-]+(?: [\w./@:+#$%~*&!?|-]+)*\Z").match
#: A name that is longer is no name.
_LONGEST: Final = 128
#: Characters of a value that tells one call from another.
_SHORT: Final = 64
#: A key that is longer is kept as what stands for it.
_LONGEST_KEY: Final = 200
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
#: Verbs of tools that change something.
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
#: Verbs of tools that only look.
_reads: Final = re.compile(
    r"ask|browse|calculate|check|compare|compute|convert|count|describe|display|estimate"
    r"|evaluate|explain|fetch|find|get|grep|has|inspect|is|list|load|look|lookup|open"
    r"|peek|preview|query|read|retrieve|search|select|show|think|validate|verify|view"
).fullmatch


def arguments(called: Called) -> Any:  # noqa: ANN401 # whatever JSON the model wrote
    """A call's arguments as they were meant; None for none that can be read."""
    try:
        return orjson.loads(called.arguments)
    except ValueError:
        return None


#: What stands around a member of an object on a line.
_BEFORE: Final = frozenset({"", " ", "{", "["})
_BEHIND: Final = frozenset({"", " ", "}", "]"})


def said(called: Called, most: int, known: str = "") -> str:
    """A call on one line: ``name(key=value, …)``, each value at most so many characters.

    Args:
        called: The call.
        most: Characters of a value that stay.
        known: What stands behind it on its line; what that says of a key is not said twice, but
            for the first value where it says all of them.
    """
    read = arguments(called)
    if isinstance(read, dict):
        given = [(flat(key), _value(value, most)) for key, value in read.items()]
        new = [f"{key}={value}" for key, value in given if not _says(known, f"{key}:{value}")]
        inner = ", ".join(new) if new else _first(given)
    else:
        inner = capped(flat(called.arguments), most)
    return f"{flat(called.name)[:_LONGEST]}({inner})"


def _says(line: str, member: str) -> bool:
    """True if a line says a member as a whole: ``amount:50`` is not in ``amount:500``."""
    at = line.find(member)
    while at >= 0:
        end = at + len(member)
        if line[max(at - 1, 0) : at] in _BEFORE and line[end : end + 1] in _BEHIND:
            return True
        at = line.find(member, at + 1)
    return False


def _first(given: Sequence[tuple[str, str]]) -> str:
    """The first of these values that is short, without its key; "" for none."""
    return next((value for _, value in given if len(value) <= _SHORT), "")


def _value(value: Any, most: int) -> str:  # noqa: ANN401
    """A value on one line, without quotes where nothing is unclear without them."""
    if isinstance(value, str):
        text = capped(value, most)
        return text if _PLAIN(text) else _json(text)
    return capped(unquoted(_json(value)), most)


def _json(value: Any) -> str:  # noqa: ANN401
    """A value as JSON, on one line whatever it holds."""
    try:
        return flat(orjson.dumps(value).decode())
    except (TypeError, ValueError):  # nested deeper than is written
        return "…"


def same(called: Called) -> str:
    """What two calls share that ask the same of the same tool; "" where it is not known."""
    if not called.name and not called.arguments:
        return ""
    read = arguments(called)
    try:
        text = orjson.dumps(read, option=orjson.OPT_SORT_KEYS).decode() if read is not None else ""
    except (TypeError, ValueError):
        text = ""
    key = f"{called.name} {text or called.arguments}"
    if len(key) <= _LONGEST_KEY:
        return key
    digest = blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()
    return f"{called.name[:_LONGEST]} {digest}"


def changes(called: Called) -> bool:
    """True if a call changes something, by the verb of its name."""
    return not looks(called) and any(map(_changes, _words(called)))


def looks(called: Called) -> bool:
    """True if a call only looks at something, by the verb of its name; so does one without."""
    words = _words(called)
    return not words or bool(_reads(words[0]))


def _words(called: Called) -> list[str]:
    """The words that a tool's name is made of, in small letters."""
    return [word.lower() for word in _WORD.findall(called.name[:_LONGEST])]
