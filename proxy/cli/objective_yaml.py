"""Objectives' documents as YAML: written in full, read with a limit, errors in one sentence."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from proxy.cli.terminal import Terminal

_MAX_BYTES: Final = 4 * 1024 * 1024
_LINE_COLUMNS: Final = 10_000


class _Dumper(yaml.SafeDumper):
    """YAML whose longer expressions keep their lines, and whose values all stand in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Always: nothing refers to what was written before."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else "")


_Dumper.add_representer(str, _represent_text)


def dump(documents: Iterable[object]) -> str:
    """The documents as YAML, one after the other."""
    return str(
        yaml.dump_all(
            documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_LINE_COLUMNS
        )
    )


def read_documents(terminal: Terminal, file: Path) -> list[Any]:
    """The documents in a file, empty ones left out; ends the command where it is no YAML."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES + 1)
        if len(text) > _MAX_BYTES:
            return terminal.fail(f"{file} has over {_MAX_BYTES // 1024 // 1024} MiB: split it.")
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except OSError as error:
        return terminal.fail(f"{file} cannot be read: {error.strerror}.")
    except (yaml.YAMLError, ValueError) as error:
        return terminal.fail(f"{file} is no YAML: {' '.join(str(error).split())}.")
    except RecursionError:
        return terminal.fail(f"{file} is nested too deep to be read.")
