"""Splits texts into pieces, each in a slot: stable text stays, semi-stable ends it, the rest moves.

Where text moved out, a fixed reference stays, and the text arrives under the same label. JSON and
XML stay valid: a reference is a member there, and semi-stable pieces stand before the end.

What varies in a short text, and its topic, are told by its form. Topics come from a fixed list, so
a layout holds none of a caller's words.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from proxy.prefix.prompts.prompt import RANK, PromptSlot

_WHERE: Final = {
    PromptSlot.SEMI_STABLE: "at the end of the instructions",
    PromptSlot.VARIABLE: "at the end of the conversation",
}
_BELOW: Final = dict.fromkeys(PromptSlot, "below")
_BREAKS: Final = "\r\n"
_EMPTY: Final = "(empty)"
_CLOSING: Final = ".,;:!?)"
_TAG: Final = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)(?:\s[^<>]*?)?(/?)>")

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
    r"|(?<![\d.,:/$€£-])\d{3,}(?![\d:/%-]|[.,]\d)|\b[\w.+-]+@[\w-]+\.\w+",
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


class TextForm(StrEnum):
    """The form of a text."""

    PLAIN = "plain text"
    JSON = "JSON"
    XML = "XML"


def text_form(text: str) -> TextForm:
    """The form of a whole text; plain where it is no valid JSON or XML."""
    bare = text.strip()
    if bare[:1] in {"{", "["} and _is_json(bare):
        return TextForm.JSON
    is_tagged = bare[:1] == "<" and bare[-1:] == ">" and _TAG.search(bare) is not None
    return TextForm.XML if is_tagged and _is_balanced(bare) else TextForm.PLAIN


def json_reference(text: str, label: str, where: str) -> str | None:
    """The reference in place of members or elements of JSON; None where the text is neither."""
    bare = text.strip()
    inner = bare.removesuffix(",").rstrip()
    if not inner:
        return text
    place = msgspec.json.encode(f"given {where}").decode()
    name = msgspec.json.encode(label).decode()
    if _is_json(f"{{{inner}}}"):
        reference = f"{name}: {place}"
    elif _is_json(f"[{inner}]"):
        reference = msgspec.json.encode(f"{label} is given {where}").decode()
    else:
        return None
    start = text.index(bare)
    return f"{text[:start]}{reference}{bare[len(inner) :].strip()}{text[start + len(bare) :]}"


def insert_before_end(text: str, words: str, form: TextForm) -> tuple[str, str]:
    """The text in two parts, with words before its closing bracket or tag in the second.

    ``words`` are members, elements or XML without an end of their own.
    """
    if form is TextForm.JSON:
        end = max(text.rfind("}"), text.rfind("]"))
        head = text[:end].rstrip().removesuffix(",").rstrip()
        return head, f"{'' if head[-1:] in {'{', '['} else ','}{words}{text[end:]}"
    end = text.rfind("</")
    return text[:end], f"{words}{text[end:]}"


class TextPiece(msgspec.Struct, frozen=True):
    """A run of text that moves as one.

    Attributes:
        label: Name of it where it stood and where it arrives; "" for a number.
        is_document: True if others may have written it, so that it gets no system message.
    """

    slot: PromptSlot
    text: str
    label: str = ""
    is_document: bool = False


class SplitText(msgspec.Struct, frozen=True):
    """A text whose pieces are in order.

    Attributes:
        stable: Text that stays in the stable slot, with references to what left.
        ending: Semi-stable text that already stands at the end.
        gone: Pieces that go elsewhere.
        whole: True if nothing is asked of the text: it stays as it was written.
    """

    stable: str
    ending: str = ""
    gone: tuple[TextPiece, ...] = ()
    whole: bool = False


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
    for topic, topic_words in _TOPICS:
        if words & topic_words:
            return topic
    if len(unit) > MAX_SHORT_CHARS:
        return ""
    if _CLOCK.search(unit):
        return "Current time"
    return "Current date" if _DATE.search(unit) else ""


def split_text(pieces: Sequence[TextPiece], *, last: bool) -> SplitText:
    """The text with only stable pieces, and what goes.

    Where no stable text follows (``last``), semi-stable pieces at its end stay there.
    """
    form = text_form("".join(piece.text for piece in pieces))
    if form is not TextForm.PLAIN and any(piece.slot is PromptSlot.SEMI_STABLE for piece in pieces):
        return _split_in_form(pieces, form, last=last)
    solid = [index for index, piece in enumerate(pieces) if _is_stable_text(piece)]
    end = solid[-1] + 1 if solid else 0
    ends = [p for p in pieces[end:] if p.slot is not PromptSlot.VARIABLE]
    if not last or all(p.slot is PromptSlot.STABLE for p in ends):
        return SplitText(_stable_text(pieces, _WHERE), gone=_moved_pieces(pieces))
    ended = [p for p in pieces[end:] if p.slot is PromptSlot.VARIABLE]
    stable = _stable_text(pieces[:end], _WHERE)
    return SplitText(stable, "".join(p.text for p in ends), (*_moved_pieces(pieces[:end]), *ended))


def _split_in_form(pieces: Sequence[TextPiece], form: TextForm, *, last: bool) -> SplitText:
    """The split of JSON or XML: its semi-stable pieces end it before it closes, or stay."""
    semi = [piece for piece in pieces if piece.slot is PromptSlot.SEMI_STABLE]
    varying = tuple(piece for piece in pieces if piece.slot is PromptSlot.VARIABLE)
    if not last:
        stays = [
            TextPiece(PromptSlot.STABLE, piece.text) if piece in semi else piece for piece in pieces
        ]
        return SplitText(_stable_text(stays, _WHERE), gone=varying)
    if form is TextForm.JSON:
        stable = "".join(_json_text(piece, _WHERE) for piece in pieces if piece not in semi)
        words = ",".join(piece.text.strip().removesuffix(",") for piece in semi)
    else:
        stable, words = _stable_text(pieces, _WHERE), f"{labelled_text(semi)}\n"
    head, ending = insert_before_end(stable, words, form)
    return SplitText(head, ending, varying)


def text_in_slot_order(pieces: Sequence[TextPiece]) -> str:
    """The text in the order of its slots, all of it; as it was where that is its order."""
    ranks = [RANK[p.slot] for p in pieces if p.text.strip()]
    if ranks == sorted(ranks):
        return "".join(piece.text for piece in pieces)
    gone = sorted(_moved_pieces(pieces), key=lambda piece: RANK[piece.slot])
    stable = _stable_text(pieces, _BELOW)
    return f"{stable}\n\n{labelled_text(gone)}" if stable.strip() else labelled_text(gone)


def labelled_text(pieces: Sequence[TextPiece]) -> str:
    """The pieces, each under its label."""
    return "\n\n".join(f"[{p.label}]\n{p.text.strip(_BREAKS) or _EMPTY}" for p in pieces)


def reference_text(pieces: Sequence[TextPiece]) -> str:
    """The reference that stands where pieces stood."""
    return "\n".join(f"[{p.label} is given {_WHERE[p.slot]}.]" for p in pieces)


def keeps_form(pieces: Sequence[TextPiece]) -> bool:
    """True if a text stays valid JSON or XML where pieces leave it; so does any other text."""
    form = text_form("".join(piece.text for piece in pieces))
    if form is TextForm.XML:
        return all(_is_balanced(piece.text) for piece in _moved_pieces(pieces))
    if form is TextForm.PLAIN:
        return True
    left = [
        json_reference(piece.text, "label", "elsewhere") if _is_moved(piece) else piece.text
        for piece in pieces
    ]
    return None not in left and _is_json("".join(part or "" for part in left))


def _is_stable_text(piece: TextPiece) -> bool:
    return piece.slot is PromptSlot.STABLE and not piece.text.isspace() and piece.text != ""


def _moved_pieces(pieces: Sequence[TextPiece]) -> tuple[TextPiece, ...]:
    return tuple(filter(_is_moved, pieces))


def _stable_text(pieces: Sequence[TextPiece], where: Mapping[PromptSlot, str]) -> str:
    """The stable text; a reference stands where a piece left from between two others.

    So it does at the end behind what introduces it, and always where the text is JSON.
    """
    if text_form("".join(piece.text for piece in pieces)) is TextForm.JSON:
        return "".join(_json_text(piece, where) for piece in pieces)
    solid = [index for index, piece in enumerate(pieces) if _is_stable_text(piece)]
    inner = range(solid[0], solid[-1]) if solid else range(0)
    parts: list[str] = []
    gone: list[TextPiece] = []
    for index, piece in enumerate(pieces):
        if _is_moved(piece):
            gone += [piece] if index in inner else []
        elif piece.text:
            parts += [_references_between(parts[-1], gone, piece.text, where)] if gone else []
            parts.append(piece.text)
            gone = []
    ended = [piece for piece in pieces[solid[-1] :] if _is_moved(piece)] if solid else []
    if ended and "".join(parts).rstrip().endswith(":"):
        parts.append(_references_between("".join(parts), ended, "\n", where))
    return "".join(parts)


def _json_text(piece: TextPiece, where: Mapping[PromptSlot, str]) -> str:
    """The text of a piece of JSON, or its reference."""
    if not _is_moved(piece):
        return piece.text
    return json_reference(piece.text, piece.label, where[piece.slot]) or piece.text


def _is_moved(piece: TextPiece) -> bool:
    return piece.slot is not PromptSlot.STABLE


def _references_between(
    before: str, gone: Sequence[TextPiece], after: str, where: Mapping[PromptSlot, str]
) -> str:
    """The references between two texts: on lines of their own, or within a line."""
    gap = "\n" if before.endswith("\n") else " "
    references = gap.join(f"[{piece.label} is given {where[piece.slot]}.]" for piece in gone)
    lead = "" if before[-1].isspace() else " "
    return lead + references + ("" if after[0].isspace() or after[0] in _CLOSING else gap)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def _is_balanced(text: str) -> bool:
    """True if every tag that opens in the text closes in it, in order."""
    open_tags: list[str] = []
    for closing, name, alone in _TAG.findall(text):
        if closing:
            if not open_tags or open_tags.pop() != name:
                return False
        elif not alone:
            open_tags.append(name)
    return not open_tags
