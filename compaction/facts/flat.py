"""Text on one line: what stands in a fact can never begin a line of its own."""

from collections.abc import Iterable, Iterator
from typing import Final

from compaction.results.value_leaves import ids

#: Stands for a line end: one token, and nothing that splits words it stands between.
END: Final = " ¶ "


def flat(text: str) -> str:
    """The text on one line; its lines keep every word, blank ones are left out."""
    return END.join([line.rstrip() for line in text.splitlines() if line.strip()])


def headed(text: str, most: int) -> str:
    """The first characters of a text, up to a word's end; whole where it is short."""
    if len(text) <= most:
        return text
    head = text[:most]
    return (head.rpartition(" ")[0] or head) + " …"


def capped(text: str, most: int) -> str:
    """A text's beginning and end, with the first ids of what is cut between them."""
    if len(text) <= most:
        return text
    first, last = ends(text, most)
    named = " ".join(fitting(ids(text[first:last]), most // 2))
    return f"{text[:first]} […{named}…] {text[last:]}"


def fitting(words: Iterable[str], room: int) -> Iterator[str]:
    """The first of these words that stand in so many characters."""
    for word in words:
        room -= len(word) + 1
        if room < 0:
            return
        yield word


def ends(text: str, most: int) -> tuple[int, int]:
    """Where a text's beginning ends and its end begins, when ``most`` of its characters stay.

    Three quarters of them are its beginning's. Words stay whole where they are short.
    """
    first = most * 3 // 4
    last = len(text) - (most - first)
    space = max(text.rfind(" ", first - 200, first), text.rfind("\n", first - 200, first))
    after = [
        at for at in (text.find(" ", last, last + 200), text.find("\n", last, last + 200)) if at > 0
    ]
    return (space if space > 0 else first, min(after) + 1 if after else last)
