"""Sentences of a text."""

import re
from collections.abc import Iterator
from typing import Final

#: It begins with what it takes, not with what stands before that: so it is sought quickly.
_STOP: Final = re.compile(r"\s(?<=[.!?]\s)\s*")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, in order, each within one line of it and without outer spaces."""
    for line in text.splitlines():
        for each in _STOP.split(line):
            if sentence := each.strip():
                yield sentence
