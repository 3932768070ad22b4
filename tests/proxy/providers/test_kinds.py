from typing import get_args

import pytest

from proxy.catalog.entries import Kind, Upstream
from proxy.providers.kinds import WIRES, credentials


def test_every_kind_has_its_wire():
    assert set(WIRES) == set(get_args(Kind))


@pytest.mark.parametrize(
    ("kind", "named", "carried"),
    [
        ("openai", "", ("authorization", "Bearer k")),
        ("anthropic", "", ("x-api-key", "k")),
        ("gemini", "", ("x-goog-api-key", "k")),
        ("anthropic-bedrock", "", ("authorization", "Bearer k")),
        ("anthropic-vertex", "", ("authorization", "Bearer k")),
        ("anthropic-vertex", "x-goog-api-key", ("x-goog-api-key", "k")),
        ("openai", "api-key", ("api-key", "k")),
        ("anthropic", "authorization", ("authorization", "Bearer k")),
    ],
)
def test_a_key_is_carried_where_its_upstream_looks_for_it(kind, named, carried):
    there = Upstream(name="up", kind=kind, base_url="http://up/v1", key_header=named)

    assert credentials(there, "k") == carried
