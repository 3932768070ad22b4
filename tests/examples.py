"""Hypothesis settings for a test that wants more or fewer examples than most."""

from typing import Any

from hypothesis import settings

#: Examples of a property in `make test`; the profile "thorough" tries twenty times as many.
USUAL = 25


def examples(count: int, **more: Any) -> settings:
    """Settings with that many examples in `make test`, and as many times more in other profiles."""
    return settings(max_examples=count * settings().max_examples // USUAL, **more)
