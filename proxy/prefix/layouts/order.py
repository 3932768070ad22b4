"""The one operation that moves text: a prompt with its pieces in the order of their slots.

::

    stable stays ─ semi-stable ends the instructions ─ conversation ─ what varies comes last

How a text is split into pieces, each in a slot, is in ``text_pieces``.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from proxy.prefix.layouts.text_pieces import (
    SplitText,
    TextPiece,
    labelled_text,
    reference_text,
    split_text,
    text_in_slot_order,
)
from proxy.prefix.prompts.objects import (
    is_plain_text,
    replace_parts,
    replace_text,
    text_message,
    text_part,
)
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    AUTHORITY,
    Prompt,
    PromptSlot,
    content_parts,
    count_leading,
    parse_message,
    part_text,
)

#: Pieces of a text part, by (message, part); together they are its whole text.
PieceMoves = Mapping[tuple[int, int], Sequence[TextPiece]]

#: Opens what varies, where it arrives.
INTRODUCTION: Final = "Details for the instructions above:\n\n"
_ASKS: Final = "user"
_DOCUMENT_STAYS: Final = "a document stays in its place: it would end the system text"
#: Between parts that an upstream may join without one.
_BREAK: Final = "\n\n"


class PlacedPrompt(msgspec.Struct, frozen=True):
    """A prompt in order, and why some of it is not."""

    prompt: Prompt
    notes: tuple[str, ...] = ()


class RequestedMoves(msgspec.Struct, frozen=True):
    """The moves to make, and why some of those asked for are not made."""

    moves: PieceMoves = {}
    notes: tuple[str, ...] = ()


class _Head(msgspec.Struct):
    """The leading messages while they are put in order.

    Attributes:
        moved: Pieces that left their place, each with the role in which it arrives.
    """

    messages: list[bytes] = []
    semi: tuple[int, int] | None = None
    moved: list[tuple[str, TextPiece]] = []

    def pieces_in_slot(self, slot: PromptSlot) -> dict[str, list[TextPiece]]:
        """The pieces that left their place for a slot, by role."""
        pieces: dict[str, list[TextPiece]] = {}
        for role, piece in self.moved:
            if piece.slot is slot:
                pieces.setdefault(role, []).append(piece)
        return pieces


def place_pieces(prompt: Prompt, moves: PieceMoves, *, late: bool = True) -> PlacedPrompt:
    """The prompt with every piece in its slot; unmodified where nothing moves.

    Text of leading messages keeps the role it came with, but for documents that vary: those
    arrive in a user's message. Pieces of the conversation's own messages stay within them.

    Places that the prompt has not are passed over. Where the upstream takes no system message after
    the conversation, what varies goes into a user's message, with a user's authority.

    Raises:
        Unplannable: If a message cannot be read.
    """
    if not moves:
        return PlacedPrompt(prompt)
    first = count_leading(prompt)
    moves, notes = _allow_moves(_with_labels(moves), prompt, first)
    head = _ordered_head(prompt, moves, first)
    _append_semi_stable(head)
    spoken = list(prompt.messages[first:])
    for number in {message for message, _ in moves if first <= message < len(prompt.messages)}:
        spoken[number - first] = _reordered_message(prompt, number, moves)
    ends = {_ASKS, *AUTHORITY} if prompt.is_native else {_ASKS}
    tail = _tail_length(spoken, head.pieces_in_slot(PromptSlot.VARIABLE), ends, late=late)
    messages = (*head.messages, *spoken)
    placed = msgspec.structs.replace(prompt, messages=messages, semi=head.semi, tail=tail)
    return PlacedPrompt(placed, notes)


def _with_labels(moves: PieceMoves) -> PieceMoves:
    """The moves with a label on each piece that has none."""
    count = 0
    labelled: dict[tuple[int, int], list[TextPiece]] = {}
    for place in sorted(moves):
        labelled[place] = []
        for piece in moves[place]:
            count += piece.slot is not PromptSlot.STABLE
            label = piece.label or f"Item {count}"
            labelled[place].append(msgspec.structs.replace(piece, label=label))
    return labelled


def _allow_moves(
    moves: PieceMoves, prompt: Prompt, first: int
) -> tuple[PieceMoves, tuple[str, ...]]:
    """The moves that the end of the conversation allows, and why not all of them."""
    if not any(
        p.slot is PromptSlot.VARIABLE for place in moves if place[0] < first for p in moves[place]
    ):
        return moves, ()
    last, notes = parse_message(prompt.messages[-1]).role, []
    is_alone = first == len(prompt.messages)
    if is_alone or (prompt.is_native and last in AUTHORITY):
        allowed = _with_other_slot(moves, first, PromptSlot.STABLE, documents_only=True)
        notes += [] if allowed == moves else [_DOCUMENT_STAYS]
        moves = allowed
    if is_alone:
        notes.append("what varies ends the instructions: no conversation follows them")
        moves = _with_other_slot(moves, first, PromptSlot.SEMI_STABLE)
    elif last == ASSISTANT:
        notes.append("what varies stays in its place: the last message is an answer to go on with")
        moves = _with_other_slot(moves, first, PromptSlot.STABLE)
    return moves, tuple(notes)


def _with_other_slot(
    moves: PieceMoves, first: int, slot: PromptSlot, *, documents_only: bool = False
) -> PieceMoves:
    """The moves with another slot for what varies in the leading messages."""
    return {
        place: [
            msgspec.structs.replace(piece, slot=slot)
            if place[0] < first
            and piece.slot is PromptSlot.VARIABLE
            and (piece.is_document or not documents_only)
            else piece
            for piece in pieces
        ]
        for place, pieces in moves.items()
    }


def _ordered_head(prompt: Prompt, moves: PieceMoves, first: int) -> _Head:
    """The leading messages with what stays in them, each slot's words in order."""
    every = [content_parts(parse_message(raw).content) for raw in prompt.messages[:first]]
    cuts = _split_parts(every, moves)
    head = _Head(messages=[], moved=[])
    for number, parts in enumerate(every):
        raw = prompt.messages[number]
        if not any((number, index) in cuts for index in range(len(parts))):
            head.messages.append(raw)
            continue
        role = parse_message(raw).role
        remaining: list[bytes] = []
        for index, one in enumerate(parts):
            pieces = cuts.get((number, index), SplitText(stable="", whole=True))
            stays, semi = _remaining_parts(one, pieces)
            if semi and head.semi is None:
                head.semi = (len(head.messages), len(remaining) + len(stays) - 1)
            remaining += stays
            head.moved += [(_arrival_role(role, piece), piece) for piece in pieces.gone]
        if remaining:
            head.messages.append(replace_parts(raw, remaining))
    return head


def _arrival_role(role: str, piece: TextPiece) -> str:
    """The role in which a piece of a leading message arrives: its own, but a user's late document.

    A system message that comes last says more than the same words amid the instructions.
    """
    return _ASKS if piece.is_document and piece.slot is PromptSlot.VARIABLE else role


def _split_parts(
    every: Sequence[Sequence[bytes]], moves: PieceMoves
) -> dict[tuple[int, int], SplitText]:
    """Each part with a requested move, split into the text that stays and what goes."""
    splits: dict[tuple[int, int], SplitText] = {}
    last = True
    for number in reversed(range(len(every))):
        for index in reversed(range(len(every[number]))):
            pieces = moves.get((number, index))
            if pieces is None or part_text(every[number][index]) is None:
                last = False
            else:
                splits[number, index] = split_text(pieces, last=last)
                last = last and not splits[number, index].stable.strip()
    return splits


def _remaining_parts(raw: bytes, split: SplitText) -> tuple[list[bytes], bool]:
    """The parts that remain where one stood, and whether the last of them is semi-stable."""
    if split.whole:
        return [raw], False
    stable = split.stable if split.stable.strip() else ""
    if split.ending.strip():
        before = (
            [text_part(stable) if raw[:1] != b'"' else replace_text(raw, stable)] if stable else []
        )
        return [*before, replace_text(raw, split.ending)], True
    if stable or is_plain_text(raw):
        return [replace_text(raw, stable)] if stable else [], False
    return [replace_text(raw, reference_text(split.gone))], False


def _append_semi_stable(head: _Head) -> None:
    """Put what is semi-stable at the end of the instructions."""
    for role, pieces in head.pieces_in_slot(PromptSlot.SEMI_STABLE).items():
        words = labelled_text(pieces)
        if head.messages and parse_message(head.messages[-1]).role == role:
            last = head.messages[-1]
            parts = content_parts(parse_message(last).content)
            head.messages[-1] = replace_parts(last, [*parts, text_part(_BREAK + words)])
            place = (len(head.messages) - 1, len(parts))
        else:
            head.messages.append(text_message(role, words))
            place = (len(head.messages) - 1, 0)
        head.semi = head.semi or place


def _reordered_message(prompt: Prompt, number: int, moves: PieceMoves) -> bytes:
    """A message of the conversation with its pieces in order."""
    raw = prompt.messages[number]
    parts = [*content_parts(parse_message(raw).content)]
    for index, part in enumerate(parts):
        pieces = moves.get((number, index))
        if pieces and part_text(part) is not None:
            parts[index] = replace_text(part, text_in_slot_order(pieces))
    return replace_parts(raw, parts)


def _tail_length(
    spoken: list[bytes],
    varying: Mapping[str, Sequence[TextPiece]],
    ends: Collection[str],
    *,
    late: bool,
) -> int:
    """Number of messages at the end that vary, once the variable pieces stand there.

    ``varying`` is added to the conversation, ``spoken``. Roles in ``ends`` take the pieces into
    their last message, where none may follow it. In the Messages API a system message follows a
    user's alone.
    """
    if not varying:
        return 0
    last = parse_message(spoken[-1]).role
    if late and not (last in AUTHORITY and last in ends):
        spoken += [
            text_message(role, INTRODUCTION + labelled_text(pieces))
            for role, pieces in sorted(varying.items(), key=lambda one: one[0] != _ASKS)
        ]
        return len(varying)
    words = INTRODUCTION + labelled_text([piece for pieces in varying.values() for piece in pieces])
    if last in ends:
        said_before = content_parts(parse_message(spoken[-1]).content)
        spoken[-1] = replace_parts(spoken[-1], [*said_before, text_part(_BREAK + words)])
    else:
        spoken.append(text_message(_ASKS, words))
    return 1
