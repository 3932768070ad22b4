import json

import pytest

from proxy.errors import InvalidCall
from proxy.prepare import prepare
from proxy.wire.kinds import WIRES
from proxy.wire.port import Wire
from tests.fakes.answers import ASKED
from tests.fakes.desk import call, route


@pytest.mark.parametrize(
    ("kind", "path"), [("openai", "/chat/completions"), ("anthropic", "/messages")]
)
def test_each_route_is_spoken_to_in_the_words_of_its_kind(kind, path):
    prepared = prepare(call(ASKED), route("up", kind=kind, model="theirs"))

    assert (prepared.method, prepared.path) == ("POST", path)
    assert json.loads(prepared.body)["model"] == "theirs"


def test_what_cannot_be_said_is_refused():
    with pytest.raises(InvalidCall):
        prepare(call(ASKED, endpoint="embeddings"), route("up", kind="anthropic"))


def test_every_kind_has_its_wire():
    wires: list[Wire] = list(WIRES.values())

    assert set(WIRES) == {"openai", "anthropic"}
    assert all(wire.usage({}) is None for wire in wires)
    assert all(wire.failure(503, {}, b"").code == "upstream_overloaded" for wire in wires)
