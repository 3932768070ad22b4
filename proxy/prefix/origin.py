"""What a conversation was before the gateway shortened it, as far as planning asks."""

import msgspec


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's own messages behind a shorter prompt.

    Attributes:
        opening: The first of them that is no instruction, as JSON: it names the conversation.
        turns: Answers they hold.
        reset: Whether the prompt begins otherwise than the call before it did, on purpose.
    """

    opening: bytes
    turns: int
    reset: bool = False
