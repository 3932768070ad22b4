"""Types of the Anthropic SDK, imported when a test first checks by them.

To import them takes two seconds of processor time, which no worker spends on collecting tests.
"""

from functools import cache
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter


@cache
def anthropic_type(name: str) -> TypeAdapter[Any]:
    """Return what checks values against a type of ``anthropic.types.beta``."""
    return TypeAdapter(getattr(import_module("anthropic.types.beta"), name))
