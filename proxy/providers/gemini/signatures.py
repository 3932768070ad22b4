"""Thought signatures, where Google's OpenAI-compatible answers carry them: ``extra_content``.

::

    {"id": "call_1", "function": {…}, "extra_content": {"google": {"thought_signature": "…"}}}

A call in the history without one is refused by newer models. For calls of another model Google
documents a placeholder. Source: Google, thought signatures (2026-11).
"""

from typing import Any, Final

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import is_given
from proxy.providers.lenient import decode_or

#: Stands for the signature of a call that another model made.
UNSIGNED: Final = "skip_thought_signature_validator"


class _Google(msgspec.Struct):
    thought_signature: str = ""


class _Extra(msgspec.Struct):
    google: _Google | None = None


_extra = msgspec.json.Decoder(_Extra).decode


def signature_of(extra_content: Raw) -> str:
    """The signature in what a caller sent back; "" where there is none."""
    google = decode_or(_extra, extra_content, _Extra()).google if is_given(extra_content) else None
    return "" if google is None else google.thought_signature


def extra_content(signature: str) -> dict[str, Any]:
    """The member that carries a signature to the caller; empty for none."""
    if not signature:
        return {}
    return {"extra_content": {"google": {"thought_signature": signature}}}
