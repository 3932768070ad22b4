"""Writes the ``[engines.NAME]`` table of a profile as TOML; pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from slo.toml.values import toml_key, toml_line, toml_value

#: Columns from which on an array stands on several lines.
_MAX_COLUMNS: Final = 100


def write_profile(name: str, fields: Mapping[str, object], notes: Sequence[str] = ()) -> str:
    """The table as text.

    Args:
        fields: Its fields in order; None, "" and an empty list are left out.
    """
    lines = [f"[engines.{toml_key(name)}]", *(f"# {note}" for note in notes)]
    for key, value in fields.items():
        if value is None or value in ("", []):
            continue
        line = toml_line(key, value)
        if isinstance(value, list) and len(line) > _MAX_COLUMNS:
            line = "\n".join(
                [f"{key} = [", *(f"  {toml_value(element)}," for element in value), "]"]
            )
        lines.append(line)
    return "\n".join([*lines, ""])
