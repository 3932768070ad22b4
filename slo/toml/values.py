"""Writes values as TOML does."""

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: object) -> str:
    """A text, number, date or truth value as TOML, or an array or inline table of them.

    JSON's escapes of texts are some of TOML's, which wants one more character escaped.

    Source: TOML 1.0.0, sections on strings and inline tables (2021-01).
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(toml_line(key, inner) for key, inner in value.items())} }}"
    return json.dumps(value)


def toml_key(key: str) -> str:
    """A key as TOML writes it: bare where it may be, else as a text."""
    return key if _BARE_KEY.fullmatch(key) else toml_value(key)


def toml_line(key: str, value: object) -> str:
    """A key with its value, as a line of a table has them."""
    return f"{toml_key(key)} = {toml_value(value)}"
