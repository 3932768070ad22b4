"""Opaque reasoning that must come back as it was given, sealed into ``encrypted_content``.

A chat answer may carry ``thinking_blocks`` (the provider's own, signed) or only the text of its
reasoning. A Responses caller keeps neither, but sends reasoning items back untouched. So what the
upstream wants to see again travels in the one field of an item that callers treat as opaque.

The seal is no secret: it is ``tg1.`` and the base64url of JSON. Providers check their own
signatures.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import msgspec

from proxy.providers.chat.block_order import BlockOrder

_MARK: Final = "tg1."


class OpaqueParts(msgspec.Struct, omit_defaults=True):
    """The parts of an assistant message beside its words.

    Attributes:
        thinking_blocks: The provider's blocks in order, signatures included.
        reasoning_content: The reasoning as text, for upstreams that sign nothing.
    """

    thinking_blocks: list[Any] = []
    reasoning_content: str = ""

    def __bool__(self) -> bool:
        """True if there is anything to carry."""
        return bool(self.thinking_blocks or self.reasoning_content)

    def join(self, later: "OpaqueParts", order: BlockOrder) -> None:
        """Add later parts, with a note on what stood between, which ``order`` knows."""
        for block in later.thinking_blocks:
            self.thinking_blocks += order.entries_for_block(block)
        self.reasoning_content += later.reasoning_content


_opaque = msgspec.json.Decoder(OpaqueParts).decode


def seal_parts(opaque: OpaqueParts) -> str:
    """The opaque parts as one string; blocks make the plain text needless."""
    parts = (
        OpaqueParts(thinking_blocks=opaque.thinking_blocks) if opaque.thinking_blocks else opaque
    )
    return _MARK + urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def unseal_parts(seal: str | None) -> OpaqueParts:
    """The parts that were sealed; empty for a seal of another maker or none.

    What another provider encrypted means nothing to this model, and leaving it out is what that
    provider's documentation allows; so it is no error.

    Raises:
        ValueError: If it is our seal but was changed on the way.
    """
    if seal is None or not seal.startswith(_MARK):
        return OpaqueParts()
    text = seal.removeprefix(_MARK)
    try:
        return _opaque(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        raise ValueError(
            "`encrypted_content` must come back as it was given; or leave the item out"
        ) from None
