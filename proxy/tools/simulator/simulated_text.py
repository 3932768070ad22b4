"""Generates English text that is deterministic, plausible, and marked as simulated."""

import re
from collections.abc import Sequence
from random import Random

MARK = "[simulated]"

_OPENERS = (
    "In short,",
    "As far as the notes go,",
    "Put plainly,",
    "On the whole,",
    "For the time being,",
    "Looking at it twice,",
)
_SUBJECTS = (
    "the first step",
    "this part of the record",
    "a careful reading",
    "the simplest change",
    "what was asked",
    "the earlier answer",
    "one small check",
    "the usual way",
)
_VERBS = (
    "points to",
    "depends on",
    "leaves room for",
    "agrees with",
    "settles",
    "follows from",
    "is explained by",
    "comes before",
)
_OBJECTS = (
    "the second paragraph",
    "a shorter list",
    "the order of events",
    "what the customer expects",
    "the figures given above",
    "a quiet afternoon of work",
    "the file that changed last",
    "two open questions",
)
_ENDINGS = (
    "",
    ", and little else",
    ", so nothing needs to be undone",
    ", which is easy to verify",
    " once the rest is in place",
    ", at least for now",
)
_TOPIC = re.compile(r"[A-Za-z][A-Za-z-]{5,}")


def seeded_random(seed: int) -> Random:
    """Dice that fall the same way for the same seed."""
    return Random(seed)  # noqa: S311 - a simulation wants the same fall every time


def prose(thrown: Random, about: str, words: int) -> str:
    """About that many words, marked, that mention what they are about; at least one sentence."""
    sentences = [MARK, _opening(thrown, about)]
    while sum(len(sentence.split()) for sentence in sentences) < words:
        sentences.append(_sentence(thrown))
    return " ".join(sentences)


def refusal() -> str:
    """The text of a simulated model's refusal."""
    return f"{MARK} I will not help with that."


def pieces(text: str, size: int = 3) -> list[str]:
    """The text in runs of a few words that join to it again; none for ""."""
    words: Sequence[str] = re.findall(r"\s*\S+\s*$|\s*\S+", text)
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def _opening(thrown: Random, about: str) -> str:
    topics = sorted(set(_TOPIC.findall(about[:4000])))
    if not topics:
        return _sentence(thrown)
    return f"About {thrown.choice(topics).lower()}: {_sentence(thrown)}"


def _sentence(thrown: Random) -> str:
    opener = thrown.choice(_OPENERS)
    subject, verb, thing = thrown.choice(_SUBJECTS), thrown.choice(_VERBS), thrown.choice(_OBJECTS)
    return f"{opener} {subject} {verb} {thing}{thrown.choice(_ENDINGS)}."
