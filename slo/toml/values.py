"""Writes values as TOML does."""

import json
from collections.abc import Mapping
from datetime import date


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
        return f"{{ {', '.join(f'{key} = {toml_value(inner)}' for key, inner in value.items())} }}"
    return json.dumps(value)
