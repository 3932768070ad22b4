"""Sizes of a prompt's segments and positions of its cache marks, without any of its text."""

from collections.abc import Iterator

import msgspec


class CacheMark(msgspec.Struct, frozen=True, array_like=True):
    """A cache mark in a prompt that was sent.

    Attributes:
        tokens: Tokens of the prompt up to the mark.
        lifetime: The lifetime asked for, such as ``1h``; "" for the provider's own.
    """

    tokens: int
    lifetime: str


class PromptSegments(msgspec.Struct, frozen=True, array_like=True):
    """Sizes of a prompt's segments in the order in which they were sent, in tokens.

    Attributes:
        stable: Tools and texts that every call of the feature sends.
        semi_stable: Texts that stay within a conversation.
        variable: The conversation.
        marks: The cache marks, in order; the caller's own are among them.
    """

    stable: int
    semi_stable: int
    variable: int
    marks: tuple[CacheMark, ...] = ()

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """Each segment's name and tokens, in the order in which they were sent."""
        return (
            ("stable", self.stable),
            ("semi-stable", self.semi_stable),
            ("variable", self.variable),
        )

    def lines(self) -> Iterator[str]:
        """Sentences on the segments and marks."""
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in self.sizes() if tokens)
        yield f"Segments of its prompt, in tokens: {parts or 'none'}."
        if self.marks:
            marks = ", ".join(_mark_text(mark) for mark in self.marks)
            yield f"Cache marks after tokens: {marks}."


def _mark_text(mark: CacheMark) -> str:
    return f"{mark.tokens:,} ({mark.lifetime})" if mark.lifetime else f"{mark.tokens:,}"
