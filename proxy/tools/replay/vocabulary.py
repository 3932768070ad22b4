"""Counts o200k_base tokens line by line, so that of a growing text only new lines are counted."""

import re
from itertools import chain
from typing import Final

from proxy.tools.simulator.rendering import Vocabulary

#: A line, and those behind it that are blank or open with a slash: behind the line break of any
#: other, no piece of the vocabulary's pattern goes on, so texts cut there count the same.
#: Source: ``pat_str`` of o200k_base in tiktoken_ext/openai_public.py, 0.14.0.
_LINE: Final = re.compile(r"[^\n]*(?:\n(?=[^\S\n]*(?:[\n/]|\Z))[^\n]*)*(?:\n|\Z)")
#: Texts this short are remembered whole.
_SHORT: Final = 256


class LineVocabulary(Vocabulary):
    """The vocabulary, remembering lines; bounded by the tokens remembered."""

    def __init__(self, bound: int = 2_000_000) -> None:
        super().__init__(bound)

    def ids(self, text: str) -> tuple[int, ...]:
        """The text's token ids."""
        ids = super().ids
        if len(text) <= _SHORT and "\n" not in text:
            return ids(text)
        return tuple(chain.from_iterable(ids(piece) for piece in _LINE.findall(text) if piece))
