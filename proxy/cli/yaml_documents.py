"""YAML documents for other programs, written so that people can read them."""

from collections.abc import Iterable
from typing import Final

import yaml

_COLUMNS: Final = 10_000


class _Dumper(yaml.SafeDumper):
    """Longer texts keep their lines, and values all stand in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Always: nothing refers to what was written before."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else ""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(documents: Iterable[object]) -> str:
    """The documents as YAML, one after the other, each written in full."""
    return str(
        yaml.dump_all(
            documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_COLUMNS
        )
    )
