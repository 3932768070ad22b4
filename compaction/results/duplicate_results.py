"""Replaces a tool result that repeats an earlier one by a reference to it."""

from collections.abc import Mapping
from typing import Final

import blake3

#: Minimum characters of a repeated result that is replaced; a shorter one is sent again.
MIN_REPEATED_CHARS: Final = 200
_DIGEST_BYTES: Final = 16


def text_digest(text: str) -> bytes:
    """16 bytes that stand for a text."""
    return blake3.blake3(text.encode(errors="surrogatepass")).digest(length=_DIGEST_BYTES)


def pointer_to_earlier(text: str, calls_by_digest: Mapping[bytes, str]) -> str | None:
    """A pointer to the call that had this result byte for byte; None where none had.

    Args:
        text: The result.
        calls_by_digest: Calls by the digest of their result's text. Only calls whose results stay
            in the prompt unmodified.
    """
    if (
        len(text) < MIN_REPEATED_CHARS
        and len(text.encode(errors="surrogatepass")) < MIN_REPEATED_CHARS
    ):
        return None
    call = calls_by_digest.get(text_digest(text))
    return None if call is None else f"[same as the earlier result of {call}]"
