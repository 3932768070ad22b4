"""Layouts put to use."""

import msgspec

from proxy.prefix.layouts.layout import Layout, moved
from proxy.prefix.layouts.order import Placed, placed
from proxy.prefix.prompts.prompt import Fingerprint, Prompt


def applied(prompt: Prompt, layout: Layout, fingerprint: Fingerprint, *, late: bool) -> Placed:
    """The prompt in the layout's order, and why some of its moves were passed over."""
    wished = moved(prompt, layout, fingerprint)
    found = placed(prompt, wished.wish, late=late)
    return msgspec.structs.replace(found, notes=(*wished.notes, *found.notes))
