"""A text in pieces, each in a slot: what of it stays, what goes, and how both are written."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.prefix.prompts.prompt import RANK, Slot

_WHERE: Final = {
    Slot.SEMI_STABLE: "at the end of the instructions",
    Slot.VARIABLE: "at the end of the conversation",
}
_BELOW: Final = dict.fromkeys(Slot, "below")
_BREAKS: Final = "\r\n"
_EMPTY: Final = "(empty)"
_CLOSING: Final = ".,;:!?)"


class Piece(msgspec.Struct, frozen=True):
    """A run of text that moves as one.

    Attributes:
        label: What it is called where it stood and where it arrives; "" for a number.
    """

    slot: Slot
    text: str
    label: str = ""


class Cut(msgspec.Struct, frozen=True):
    """A text whose pieces are in order.

    Attributes:
        kept: What stays in the stable slot, with references to what left.
        ending: What is semi-stable and already stands at the end.
        gone: What goes elsewhere.
        whole: Whether nothing is asked of the text: it stays as it was written.
    """

    kept: str
    ending: str = ""
    gone: tuple[Piece, ...] = ()
    whole: bool = False


def cut(pieces: Sequence[Piece], *, last: bool) -> Cut:
    """The text with only stable pieces, and what goes.

    Args:
        pieces: The text.
        last: Whether no stable text follows it; semi-stable pieces at its end then stay there.
    """
    solid = [at for at, piece in enumerate(pieces) if _solid(piece)]
    end = solid[-1] + 1 if solid else 0
    ends = [p for p in pieces[end:] if p.slot is not Slot.VARIABLE]
    if not last or all(p.slot is Slot.STABLE for p in ends):
        return Cut(_kept(pieces, _WHERE), gone=_gone(pieces))
    ended = [p for p in pieces[end:] if p.slot is Slot.VARIABLE]
    kept = _kept(pieces[:end], _WHERE)
    return Cut(kept, "".join(p.text for p in ends), (*_gone(pieces[:end]), *ended))


def within(pieces: Sequence[Piece]) -> str:
    """The text in the order of its slots, all of it; as it was where that is its order."""
    ranks = [RANK[p.slot] for p in pieces if p.text.strip()]
    if ranks == sorted(ranks):
        return "".join(piece.text for piece in pieces)
    gone = sorted(_gone(pieces), key=lambda piece: RANK[piece.slot])
    kept = _kept(pieces, _BELOW)
    return f"{kept}\n\n{labelled(gone)}" if kept.strip() else labelled(gone)


def labelled(pieces: Sequence[Piece]) -> str:
    """The pieces, each under its label."""
    return "\n\n".join(f"[{p.label}]\n{p.text.strip(_BREAKS) or _EMPTY}" for p in pieces)


def references(pieces: Sequence[Piece]) -> str:
    """What stands where pieces stood."""
    return "\n".join(f"[{p.label} is given {_WHERE[p.slot]}.]" for p in pieces)


def _solid(piece: Piece) -> bool:
    return piece.slot is Slot.STABLE and not piece.text.isspace() and piece.text != ""


def _gone(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces if piece.slot is not Slot.STABLE)


def _kept(pieces: Sequence[Piece], where: Mapping[Slot, str]) -> str:
    """The stable text; a reference stands where a piece left from between two others."""
    solid = [at for at, piece in enumerate(pieces) if _solid(piece)]
    inner = range(solid[0], solid[-1]) if solid else range(0)
    found: list[str] = []
    gone: list[Piece] = []
    for at, piece in enumerate(pieces):
        if piece.slot is not Slot.STABLE:
            gone += [piece] if at in inner else []
        elif piece.text:
            found += [_bridge(found[-1], gone, piece.text, where)] if gone else []
            found.append(piece.text)
            gone = []
    return "".join(found)


def _bridge(before: str, gone: Sequence[Piece], after: str, where: Mapping[Slot, str]) -> str:
    """The references between two texts: on lines of their own, or within a line."""
    gap = "\n" if before.endswith("\n") else " "
    said = gap.join(f"[{piece.label} is given {where[piece.slot]}.]" for piece in gone)
    lead = "" if before[-1].isspace() else " "
    return lead + said + ("" if after[0].isspace() or after[0] in _CLOSING else gap)
