"""Texts in pieces, each in a slot: what stays, what ends them, what goes elsewhere.

Where words went from between others a fixed reference stays, and they arrive under its label. JSON
and XML stay valid: a reference is a member there, and semi-stable pieces stand before the end.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.prefix.layouts.text_forms import (
    TextForm,
    insert_before_end,
    json_reference,
    text_form,
)
from proxy.prefix.prompts.prompt import RANK, PromptSlot

_WHERE: Final = {
    PromptSlot.SEMI_STABLE: "at the end of the instructions",
    PromptSlot.VARIABLE: "at the end of the conversation",
}
_BELOW: Final = dict.fromkeys(PromptSlot, "below")
_BREAKS: Final = "\r\n"
_EMPTY: Final = "(empty)"
_CLOSING: Final = ".,;:!?)"


class TextPiece(msgspec.Struct, frozen=True):
    """A run of text that moves as one.

    Attributes:
        label: Name of it where it stood and where it arrives; "" for a number.
    """

    slot: PromptSlot
    text: str
    label: str = ""


class SplitText(msgspec.Struct, frozen=True):
    """A text whose pieces are in order.

    Attributes:
        kept: Text that stays in the stable slot, with references to what left.
        ending: Semi-stable text that already stands at the end.
        gone: Pieces that go elsewhere.
        whole: True if nothing is asked of the text: it stays as it was written.
    """

    kept: str
    ending: str = ""
    gone: tuple[TextPiece, ...] = ()
    whole: bool = False


def split_text(pieces: Sequence[TextPiece], *, last: bool) -> SplitText:
    """The text with only stable pieces, and what goes.

    Args:
        pieces: The text.
        last: True if no stable text follows it; semi-stable pieces at its end then stay there.
    """
    form = text_form("".join(piece.text for piece in pieces))
    if form is not TextForm.PLAIN and any(piece.slot is PromptSlot.SEMI_STABLE for piece in pieces):
        return _split_in_form(pieces, form, last=last)
    solid = [at for at, piece in enumerate(pieces) if _is_stable_text(piece)]
    end = solid[-1] + 1 if solid else 0
    ends = [p for p in pieces[end:] if p.slot is not PromptSlot.VARIABLE]
    if not last or all(p.slot is PromptSlot.STABLE for p in ends):
        return SplitText(_stable_text(pieces, _WHERE), gone=_moved_pieces(pieces))
    ended = [p for p in pieces[end:] if p.slot is PromptSlot.VARIABLE]
    kept = _stable_text(pieces[:end], _WHERE)
    return SplitText(kept, "".join(p.text for p in ends), (*_moved_pieces(pieces[:end]), *ended))


def _split_in_form(pieces: Sequence[TextPiece], form: TextForm, *, last: bool) -> SplitText:
    """The split of JSON or XML: its semi-stable pieces end it before it closes, or stay."""
    if not last:
        pieces = [
            TextPiece(PromptSlot.STABLE, piece.text)
            if piece.slot is PromptSlot.SEMI_STABLE
            else piece
            for piece in pieces
        ]
        return SplitText(_stable_text(pieces, _WHERE), gone=_moved_pieces(pieces))
    semi = [piece for piece in pieces if piece.slot is PromptSlot.SEMI_STABLE]
    varying = tuple(piece for piece in pieces if piece.slot is PromptSlot.VARIABLE)
    if form is TextForm.JSON:
        left = [piece for piece in pieces if piece.slot is not PromptSlot.SEMI_STABLE]
        kept = "".join(_json_text(piece, _WHERE) for piece in left)
        words = ",".join(piece.text.strip().removesuffix(",") for piece in semi)
    else:
        kept, words = _stable_text(pieces, _WHERE), f"{labelled_text(semi)}\n"
    head, ending = insert_before_end(kept, words, form)
    return SplitText(head, ending, varying)


def text_in_slot_order(pieces: Sequence[TextPiece]) -> str:
    """The text in the order of its slots, all of it; as it was where that is its order."""
    ranks = [RANK[p.slot] for p in pieces if p.text.strip()]
    if ranks == sorted(ranks):
        return "".join(piece.text for piece in pieces)
    gone = sorted(_moved_pieces(pieces), key=lambda piece: RANK[piece.slot])
    kept = _stable_text(pieces, _BELOW)
    return f"{kept}\n\n{labelled_text(gone)}" if kept.strip() else labelled_text(gone)


def labelled_text(pieces: Sequence[TextPiece]) -> str:
    """The pieces, each under its label."""
    return "\n\n".join(f"[{p.label}]\n{p.text.strip(_BREAKS) or _EMPTY}" for p in pieces)


def reference_text(pieces: Sequence[TextPiece]) -> str:
    """The reference that stands where pieces stood."""
    return "\n".join(f"[{p.label} is given {_WHERE[p.slot]}.]" for p in pieces)


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
    solid = [at for at, piece in enumerate(pieces) if _is_stable_text(piece)]
    inner = range(solid[0], solid[-1]) if solid else range(0)
    found: list[str] = []
    gone: list[TextPiece] = []
    for at, piece in enumerate(pieces):
        if _is_moved(piece):
            gone += [piece] if at in inner else []
        elif piece.text:
            found += [_references_between(found[-1], gone, piece.text, where)] if gone else []
            found.append(piece.text)
            gone = []
    ended = [piece for piece in pieces[solid[-1] :] if _is_moved(piece)] if solid else []
    if ended and "".join(found).rstrip().endswith(":"):
        found.append(_references_between("".join(found), ended, "\n", where))
    return "".join(found)


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
    said = gap.join(f"[{piece.label} is given {where[piece.slot]}.]" for piece in gone)
    lead = "" if before[-1].isspace() else " "
    return lead + said + ("" if after[0].isspace() or after[0] in _CLOSING else gap)
