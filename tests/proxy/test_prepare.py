import json

import msgspec
import pytest

from proxy.errors import InvalidCall
from proxy.prefix.plan import Plan
from proxy.prefix.planned import Asked, Draft, Planned, Unplanned, Way
from proxy.prefix.planner import Planner
from proxy.prefix.prompt import parsed
from proxy.prefix.regime import Regime
from proxy.prepare import prepare
from proxy.wire.kinds import WIRES
from proxy.wire.port import Wire
from tests.fakes.answers import ASKED
from tests.fakes.desk import call, route
from tests.proxy.prefix.askings import WAYS, Process, asked, body, talk


@pytest.mark.parametrize(
    ("kind", "path"), [("openai", "/chat/completions"), ("anthropic", "/messages")]
)
def test_each_route_is_spoken_to_in_the_words_of_its_kind(kind, path):
    prepared = prepare(call(ASKED), route("up", kind=kind, model="theirs"))

    assert (prepared.method, prepared.path) == ("POST", path)
    assert json.loads(prepared.body)["model"] == "theirs"


def test_a_planned_call_goes_with_its_own_body_and_headers():
    asked = call(ASKED)
    draft = Draft(
        asked=Asked(team="t", feature="", key="k", body=ASKED),
        prompt=parsed(ASKED),
        fingerprint=bytes,
        conversation=b"c",
        turns=0,
    )
    way = Way(upstream="up", model="m", regime=Regime())
    planned = Planner(b"secret").planned(draft, way, Plan(), None, 0.0)
    there = route("up", model="m")

    assert prepare(asked, there, planned).headers is asked.headers
    planned = msgspec.structs.replace(planned, body=ASKED + b" ", headers={"x-h": "v"})
    sent = prepare(asked, there, planned)
    assert sent.body == ASKED + b" "
    assert sent.headers == {**asked.headers, "x-h": "v"}


def test_what_cannot_be_said_is_refused():
    with pytest.raises(InvalidCall):
        prepare(call(ASKED, endpoint="embeddings"), route("up", kind="anthropic"))


def test_every_kind_has_its_wire():
    wires: list[Wire] = list(WIRES.values())

    assert set(WIRES) == {"openai", "anthropic"}
    assert all(wire.usage({}) is None for wire in wires)
    assert all(wire.failure(503, {}, b"").code == "upstream_overloaded" for wire in wires)


def planned(raw: bytes, **fields: object) -> Planned:
    found = Process(WAYS["anthropic-breakpoint"]).planned(asked(raw))
    return msgspec.structs.replace(found, **fields)


def test_what_was_planned_is_sent_in_place_of_what_came():
    raw = body(*talk(0))
    mended = raw.replace(b"Where is", b"Where was")
    prepared = prepare(call(raw), route("up"), planned(raw, body=mended))

    assert b"Where was my parcel?" in prepared.body
    assert prepared.notes == ()


def test_what_was_planned_to_stay_is_sent_as_it_came():
    asking = call(body(*talk(0)))
    as_it_came = prepare(asking, route("up"))

    assert prepare(asking, route("up"), planned(asking.body, body=asking.body)) == as_it_came
    assert prepare(asking, route("up"), Unplanned()) == as_it_came


def test_why_a_prompt_was_not_planned_is_noted():
    raw = body(*talk(0))
    notes = ("a tag stays",)

    assert prepare(call(raw), route("up"), Unplanned("too large")).notes == ("too large",)
    assert prepare(call(raw), route("up"), planned(raw, notes=notes)).notes == notes


def test_notes_of_planning_follow_those_of_the_wire():
    raw = body(*talk(0), seed=7)
    to = route("up", kind="anthropic")
    alone = prepare(call(raw), to).notes

    assert alone
    assert prepare(call(raw), to, Unplanned("too large")).notes == (*alone, "too large")
