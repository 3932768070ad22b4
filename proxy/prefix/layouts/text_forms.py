"""Texts with a form of their own, JSON and XML, which stay valid where pieces leave them."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

_TAG: Final = re.compile(r"<(/?)([A-Za-z_][\w.:-]*)(?:\s[^<>]*?)?(/?)>")


class TextForm(StrEnum):
    """The form of a text."""

    PLAIN = "plain text"
    JSON = "JSON"
    XML = "XML"


class LeavingPiece(NamedTuple):
    """A piece of a text.

    Attributes:
        leaves: True if it goes elsewhere.
    """

    text: str
    leaves: bool


def text_form(text: str) -> TextForm:
    """The form of a whole text; plain where it is no valid JSON or XML."""
    bare = text.strip()
    if bare[:1] in {"{", "["} and _is_json(bare):
        return TextForm.JSON
    is_tagged = bare[:1] == "<" and bare[-1:] == ">" and _TAG.search(bare) is not None
    return TextForm.XML if is_tagged and _is_balanced(bare) else TextForm.PLAIN


def json_reference(text: str, label: str, where: str) -> str | None:
    """The reference in place of members or elements of JSON; None where the text is neither.

    Args:
        text: Text that leaves.
        label: Its label.
        where: Place at which it is given.
    """
    bare = text.strip()
    inner = bare.removesuffix(",").rstrip()
    if not inner:
        return text
    said = msgspec.json.encode(f"given {where}").decode()
    name = msgspec.json.encode(label).decode()
    if _is_json(f"{{{inner}}}"):
        found = f"{name}: {said}"
    elif _is_json(f"[{inner}]"):
        found = msgspec.json.encode(f"{label} is given {where}").decode()
    else:
        return None
    start = text.index(bare)
    return f"{text[:start]}{found}{bare[len(inner) :].strip()}{text[start + len(bare) :]}"


def insert_before_end(text: str, words: str, form: TextForm) -> tuple[str, str]:
    """The text in two parts, with words before its closing bracket or tag in the second.

    Args:
        text: JSON, where a comma may stand before its end, or XML.
        words: Members, elements or XML without an end of their own.
        form: Form of the text.
    """
    if form is TextForm.JSON:
        end = max(text.rfind("}"), text.rfind("]"))
        head = text[:end].rstrip().removesuffix(",").rstrip()
        return head, f"{'' if head[-1:] in {'{', '['} else ','}{words}{text[end:]}"
    end = text.rfind("</")
    return text[:end], f"{words}{text[end:]}"


def keeps_form(pieces: Iterable[LeavingPiece]) -> bool:
    """True if a text stays valid JSON or XML where pieces leave it; so does any other text."""
    every = list(pieces)
    form = text_form("".join(piece.text for piece in every))
    if form is TextForm.XML:
        return all(_is_balanced(piece.text) for piece in every if piece.leaves)
    if form is TextForm.PLAIN:
        return True
    left = [
        json_reference(piece.text, "label", "elsewhere") if piece.leaves else piece.text
        for piece in every
    ]
    return None not in left and _is_json("".join(part or "" for part in left))


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
