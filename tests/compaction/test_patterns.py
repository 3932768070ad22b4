import importlib
import pkgutil
import re
import time

import pytest

import compaction

#: Characters of a text, and what such texts are made of.
LENGTH = 32_000
MADE_OF = (
    "a", "1", "_", "-", "*", "<", "[", '"', "`", " ", "\n", "/x", "eyJ-", "- ", "x://a:",
    '\\"', "secret:", "token: ",
)  # fmt: skip
#: A look that reads each character once, and how many times as long as it any may take. Those here
#: take 20 times as long at most; what is quadratic in such a text takes several hundred times.
LINEAR = re.compile(r"b|c\w|\Bd").search
SLOWEST = 100
ROUNDS = 3


def looks():
    """The patterns of all modules by name: as they are used, or through a whole text."""
    patterns = {}
    for module in pkgutil.walk_packages(compaction.__path__, "compaction."):
        for name, value in vars(importlib.import_module(module.name)).items():
            look = value.finditer if isinstance(value, re.Pattern) else value
            if isinstance(getattr(look, "__self__", None), re.Pattern):
                patterns[f"{module.name}.{name}"] = look
    return patterns


def seconds(look, text, enough=0.0):
    """Processor time of a look through a text: the least of several, or the first that does."""
    subject = text.encode() if isinstance(look.__self__.pattern, bytes) else text
    least = float("inf")
    for _ in range(ROUNDS):
        before = time.thread_time()
        matches = look(subject[:0], subject) if look.__name__ == "sub" else look(subject)
        if look.__name__ == "finditer":
            list(matches)
        least = min(least, time.thread_time() - before)
        if least <= enough:
            break
    return least


def slow(them, length=LENGTH):
    """Names and texts of looks that take ``SLOWEST`` times as long as reading the text once."""
    texts = {unit: (unit * length)[:length] for unit in MADE_OF}
    limit = SLOWEST * seconds(LINEAR, texts["a"])
    return [
        (name, unit)
        for name, look in them.items()
        for unit, text in texts.items()
        if seconds(look, text, limit) > limit
    ]


@pytest.mark.slow
def test_no_text_makes_a_pattern_slow():
    patterns = looks()

    assert len(patterns) > 50
    assert slow(patterns) == []


def test_a_pattern_that_is_slow_is_found():
    items = re.compile(r"^\s*- ", re.MULTILINE).search

    assert slow({"items": items}, LENGTH // 4) == [("items", "\n")]
