"""Objectives' documents as YAML, written in full."""

from collections.abc import Iterable
from typing import Final

import yaml

_YAML_COLUMNS: Final = 10_000


class _YamlDumper(yaml.SafeDumper):
    """YAML whose longer expressions keep their lines, and whose values all stand in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Always: nothing refers to what was written before."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_YamlDumper.add_representer(str, _represent_text)


def _yaml(documents: Iterable[object]) -> str:
    """The documents as YAML, one after the other."""
    return str(
        yaml.dump_all(
            documents, Dumper=_YamlDumper, sort_keys=False, allow_unicode=True, width=_YAML_COLUMNS
        )
    )
