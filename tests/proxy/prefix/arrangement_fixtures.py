"""Layouts put to use."""

import msgspec

from proxy.prefix.layouts.layout import Layout, find_moves
from proxy.prefix.layouts.order import PlacedPrompt, place_pieces
from proxy.prefix.prompts.prompt import Fingerprint, Prompt


def apply_layout(
    prompt: Prompt, layout: Layout, fingerprint: Fingerprint, *, late: bool
) -> PlacedPrompt:
    """The prompt in the layout's order, and why some of its moves were passed over."""
    wished = find_moves(prompt, layout, fingerprint)
    placed = place_pieces(prompt, wished.moves, late=late)
    return msgspec.structs.replace(placed, notes=(*wished.notes, *placed.notes))
