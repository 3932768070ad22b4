"""Policies files of tests: tables with entries with_entries, and what is wrong with them."""

import re

import pytest

from slo.policies.file import Policies, read
from slo.toml.nodes import parse_toml
from slo.toml.problems import InvalidFile


def read_policies(text: str) -> Policies:
    return read(parse_toml(text, "policies.toml"))


def mistakes(text: str) -> list[str]:
    """Every problem of a text, a line each."""
    with pytest.raises(InvalidFile) as bad:
        read_policies(text)
    return str(bad.value).split("\n")


def with_entries(text: str, **lines: str) -> str:
    """The text with these entries in place of its own, or added; "" takes one out."""
    for key, value in lines.items():
        line = f"{key} = {value}\n" if value else ""
        before = re.search(rf"(?m)^{key} = .*\n", text)
        text = text + line if before is None else text.replace(before[0], line)
    return text
