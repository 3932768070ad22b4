"""A text in pieces, each in a slot: what of it stays, what goes, and how both are written."""

from collections.abc import Mapping, Sequence
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


class TextPiece(msgspec.Struct, frozen=True):
    """A run of text that moves as one.

    Attributes:
        label: What it is called where it stood and where it arrives; "" for a number.
    """

    slot: PromptSlot
    text: str
    label: str = ""


class SplitText(msgspec.Struct, frozen=True):
    """A text whose pieces are in order.

    Attributes:
        kept: What stays in the stable slot, with references to what left.
        ending: What is semi-stable and already stands at the end.
        gone: What goes elsewhere.
        whole: Whether nothing is asked of the text: it stays as it was written.
    """

    kept: str
    ending: str = ""
    gone: tuple[TextPiece, ...] = ()
    whole: bool = False


def split_text(pieces: Sequence[TextPiece], *, last: bool) -> SplitText:
    """The text with only stable pieces, and what goes.

    Args:
        pieces: The text.
        last: Whether no stable text follows it; semi-stable pieces at its end then stay there.
    """
    solid = [at for at, piece in enumerate(pieces) if _solid(piece)]
    end = solid[-1] + 1 if solid else 0
    ends = [p for p in pieces[end:] if p.slot is not PromptSlot.VARIABLE]
    if not last or all(p.slot is PromptSlot.STABLE for p in ends):
        return SplitText(_stable_text(pieces, _WHERE), gone=_moved_pieces(pieces))
    ended = [p for p in pieces[end:] if p.slot is PromptSlot.VARIABLE]
    kept = _stable_text(pieces[:end], _WHERE)
    return SplitText(kept, "".join(p.text for p in ends), (*_moved_pieces(pieces[:end]), *ended))


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
    """What stands where pieces stood."""
    return "\n".join(f"[{p.label} is given {_WHERE[p.slot]}.]" for p in pieces)


def _solid(piece: TextPiece) -> bool:
    return piece.slot is PromptSlot.STABLE and not piece.text.isspace() and piece.text != ""


def _moved_pieces(pieces: Sequence[TextPiece]) -> tuple[TextPiece, ...]:
    return tuple(piece for piece in pieces if piece.slot is not PromptSlot.STABLE)


def _stable_text(pieces: Sequence[TextPiece], where: Mapping[PromptSlot, str]) -> str:
    """The stable text; a reference stands where a piece left from between two others."""
    solid = [at for at, piece in enumerate(pieces) if _solid(piece)]
    inner = range(solid[0], solid[-1]) if solid else range(0)
    found: list[str] = []
    gone: list[TextPiece] = []
    for at, piece in enumerate(pieces):
        if piece.slot is not PromptSlot.STABLE:
            gone += [piece] if at in inner else []
        elif piece.text:
            found += [_bridge(found[-1], gone, piece.text, where)] if gone else []
            found.append(piece.text)
            gone = []
    return "".join(found)


def _bridge(
    before: str, gone: Sequence[TextPiece], after: str, where: Mapping[PromptSlot, str]
) -> str:
    """The references between two texts: on lines of their own, or within a line."""
    gap = "\n" if before.endswith("\n") else " "
    said = gap.join(f"[{piece.label} is given {where[piece.slot]}.]" for piece in gone)
    lead = "" if before[-1].isspace() else " "
    return lead + said + ("" if after[0].isspace() or after[0] in _CLOSING else gap)
