from pathlib import Path
from typing import NoReturn

import pytest
import yaml
from rich.console import Console

from proxy.cli.objective_yaml import dump, read_documents
from proxy.cli.terminal import Terminal


class Refused(Exception):
    """The command was ended with this message."""


def _refuse(why: str) -> NoReturn:
    raise Refused(why)


def _unopened() -> NoReturn:
    raise AssertionError("YAML needs no database")


TERMINAL = Terminal(_unopened, lambda: 0.0, Console(), _refuse)


def written(folder: Path, text: str) -> Path:
    (folder / "slo.yaml").write_text(text, encoding="utf8")
    return folder / "slo.yaml"


def test_what_is_dumped_is_read_again(tmp_path):
    shared = {"name": "é\U0001f600", "lines": "a\nb\n"}
    said = dump([shared, {"twice": [shared, shared]}])

    assert read_documents(TERMINAL, written(tmp_path, said)) == list(yaml.safe_load_all(said))
    assert "lines: |\n  a\n  b\n" in said
    assert "&" not in said


def test_empty_documents_are_left_out(tmp_path):
    assert read_documents(TERMINAL, written(tmp_path, "---\n---\na: 1\n---\n")) == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "is no YAML"),
        ("a: 2026-99-99", "is no YAML"),
        ("!!python/object/apply:os.system [ls]", "is no YAML"),
        ("[" * 10_000, "is nested too deep"),
        ("#" * (4 * 1024 * 1024 + 1), "has over 4 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_command_with_the_reason(tmp_path, text, why):
    with pytest.raises(Refused, match=why):
        read_documents(TERMINAL, written(tmp_path, text))


def test_a_file_that_is_not_there_ends_the_command_with_its_name(tmp_path):
    with pytest.raises(Refused, match=r"none\.yaml cannot be read"):
        read_documents(TERMINAL, tmp_path / "none.yaml")
