"""A conversation before its compaction, as far as planning needs it."""

import msgspec


class UncompactedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's own messages behind a shorter prompt.

    Attributes:
        messages: Each of them, as JSON: they tell which conversation it is.
        turns: Answers they hold.
        reset: True if the prompt begins otherwise than the call before it did, on purpose.
    """

    messages: tuple[bytes, ...]
    turns: int
    reset: bool = False
