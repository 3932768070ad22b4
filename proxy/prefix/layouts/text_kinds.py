"""Kinds of short texts, told by their form: what varies by it, and what it is about.

Topics are of a fixed list, so that nothing of a caller's words stays in a layout.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

#: Characters above which a text is told by no form.
MAX_SHORT_CHARS: Final = 200
_CLOCK: Final = re.compile(r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?![\d-])")
_DATE: Final = re.compile(
    r"\b20\d\d-\d\d-\d\d"
    r"|\b(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.? \d{1,2},? 20\d\d\b"
    r"|\b\d{1,2}\.? (?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\.? 20\d\d\b",
    re.IGNORECASE,
)
#: A UUID, a number of a person or thing, an e-mail address.
_NUMBER: Final = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|(?<![\d.,:/$€£-])\d{5,}(?![\d.,:/%-])|\b[\w.+-]+@[\w-]+\.\w+",
    re.IGNORECASE,
)
#: The name of a value: before a colon, as a member of JSON, or as a tag.
_NAME: Final = re.compile(
    r"[^\w<]*(?:<([\w.-]{2,40})[^>]*>|([A-Za-z][\w .-]{1,40}?)(?:[\"*_`\]]*\s*[:=]|\]))"
)
_TOPICS: Final = (
    ("Current time", frozenset({"time", "now", "clock", "timestamp"})),
    ("Current date", frozenset({"date", "today", "day"})),
    ("Customer", frozenset({"customer", "client", "account"})),
    ("User", frozenset({"user", "username", "name", "member", "caller"})),
    ("Session", frozenset({"session", "conversation", "thread"})),
    ("Request", frozenset({"request", "trace", "id", "uuid"})),
    ("Working directory", frozenset({"directory", "cwd", "folder", "path", "workspace"})),
    ("Document", frozenset({"document", "documents", "doc", "passage", "passages", "source",
                             "sources", "context", "results", "excerpt", "article"})),
    ("Place", frozenset({"location", "place", "city", "timezone", "locale", "language"})),
)  # fmt: skip
_WORD: Final = re.compile(r"[a-z]+")


class PlainEvidence(StrEnum):
    """The kind of text that varies by its very form."""

    NONE = ""
    CLOCK = "clock"  #: A time of day: another one in each call.
    IDENTITY = "identity"  #: A date, a UUID or another number: of a call, or of a session.


@lru_cache(1_024)
def plain_evidence(unit: str) -> PlainEvidence:
    """The kind of text that a short unit is by its form."""
    if len(unit) > MAX_SHORT_CHARS:
        return PlainEvidence.NONE
    if _CLOCK.search(unit):
        return PlainEvidence.CLOCK
    is_identity = _DATE.search(unit) or _NUMBER.search(unit)
    return PlainEvidence.IDENTITY if is_identity else PlainEvidence.NONE


def text_topic(unit: str) -> str:
    """The topic of a unit by its name, else by its form; "" where neither tells."""
    name = _NAME.match(unit[:MAX_SHORT_CHARS])
    words = set(_WORD.findall((name[1] or name[2]).lower())) if name else set()
    for topic, known in _TOPICS:
        if words & known:
            return topic
    if len(unit) > MAX_SHORT_CHARS:
        return ""
    if _CLOCK.search(unit):
        return "Current time"
    return "Current date" if _DATE.search(unit) else ""
