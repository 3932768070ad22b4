import json
from dataclasses import replace
from typing import get_args

import msgspec
import pytest

from proxy.caches.regime import Regime
from proxy.calls.translation.translation import needs_thread, prepare
from proxy.catalog.entries import Kind
from proxy.prefix.breakpoints.plan import Plan
from proxy.prefix.planned import (
    Passthrough,
    Planned,
    PlanningRequest,
    PlanningTarget,
)
from proxy.prefix.planner import Planner
from proxy.providers.kinds import WIRES
from proxy.providers.port import Wire
from tests.fakes.answers import ASKED
from tests.fakes.call_dependencies import call, route
from tests.fakes.refusals import refusing
from tests.proxy.prefix.planning_requests import (
    TARGETS,
    PlanningProcess,
    body,
    conversation_messages,
    planning_request,
)


@pytest.mark.parametrize(
    ("kind", "path"), [("openai", "/chat/completions"), ("anthropic", "/messages")]
)
def test_each_route_is_spoken_to_in_the_words_of_its_kind(kind, path):
    prepared = prepare(call(ASKED), route("up", kind=kind, model="theirs"))

    assert (prepared.method, prepared.path) == ("POST", path)
    assert json.loads(prepared.body)["model"] == "theirs"


def test_a_planned_call_goes_with_its_own_body_and_headers():
    request = call(ASKED)
    planner = Planner(b"secret")
    draft = planner.read_call(PlanningRequest(team="t", feature="", key="k", body=ASKED))
    way = PlanningTarget(upstream="up", model="m", regime=Regime())
    planned = planner.plan_call(draft, way, Plan(), None, 0.0)
    there = route("up", model="m")

    assert prepare(request, there, planned).headers is request.headers
    planned = msgspec.structs.replace(planned, body=ASKED + b" ", headers={"x-h": "v"})
    prepared = prepare(request, there, planned)
    assert prepared.body == ASKED + b" "
    assert prepared.headers == {**request.headers, "x-h": "v"}


@pytest.mark.parametrize(
    ("endpoint", "kind", "least"),
    [
        ("chat/completions", "openai", 256),
        ("chat/completions", "anthropic", 64),
        ("chat/completions", "gemini", 64),
        ("responses", "openai", 256),
        ("responses", "anthropic", 64),
        ("messages", "anthropic", 256),
        ("messages", "openai", 64),
    ],
)
def test_a_body_that_changes_its_api_is_prepared_on_a_thread_from_a_quarter_of_the_size_on(
    endpoint, kind, least
):
    there = route("up", kind=kind)
    sizes = (least * 1024 - 1, least * 1024)
    requests = [call(b" " * size, endpoint, fields=None) for size in sizes]

    assert [needs_thread(request, there) for request in requests] == [False, True]


@pytest.mark.parametrize(("kind", "threaded"), [("openai", False), ("anthropic", True)])
def test_many_short_messages_are_said_in_another_api_on_a_thread(kind, threaded):
    turn = b'{"role":"user","content":"a"}'
    few, many = (b'{"messages":[' + b",".join([turn] * n) + b"]}" for n in (382, 383))
    requests = [call(body, fields=None) for body in (few, many)]

    assert [needs_thread(request, route("up", kind=kind)) for request in requests] == [
        False,
        threaded,
    ]


@pytest.mark.parametrize(("provider", "threaded"), [("google", True), ("openai", False)])
@pytest.mark.parametrize("filler", [b'{"$ref":"#"}' + b" " * 400, b'"' + b"a" * 65_536 + b'"'])
def test_schemas_with_references_are_rewritten_for_google_on_a_thread(filler, provider, threaded):
    served = route("up", kind="openai")
    there = replace(served, upstream=replace(served.upstream, provider=provider))

    assert needs_thread(call(b'{"tools":[' + filler + b"]}", fields=None), there) is threaded


def test_a_call_that_the_wire_cannot_express_is_refused():
    with refusing(400):
        prepare(call(ASKED, endpoint="embeddings"), route("up", kind="anthropic"))


def test_every_kind_has_its_wire():
    wires: list[Wire] = list(WIRES.values())

    assert set(WIRES) == set(get_args(Kind))
    assert all(wire.usage({}) is None for wire in wires)
    assert all(wire.failure(503, {}, b"").code == "upstream_overloaded" for wire in wires)


def plan_body(raw: bytes, **fields: object) -> Planned:
    planned = PlanningProcess(TARGETS["anthropic-breakpoint"]).plan(planning_request(raw))
    return msgspec.structs.replace(planned, **fields)


def test_the_planned_prompt_is_sent_in_place_of_the_callers():
    raw = body(*conversation_messages(0))
    mended = raw.replace(b"Where is", b"Where was")
    prepared = prepare(call(raw), route("up"), plan_body(raw, body=mended))

    assert b"Where was my parcel?" in prepared.body
    assert prepared.notes == ()


def test_a_plan_without_changes_is_sent_unmodified():
    asking = call(body(*conversation_messages(0)))
    as_it_came = prepare(asking, route("up"))

    assert prepare(asking, route("up"), plan_body(asking.body, body=asking.body)) == as_it_came
    assert prepare(asking, route("up"), Passthrough()) == as_it_came


def test_the_reason_for_not_planning_is_noted():
    raw = body(*conversation_messages(0))
    notes = ("a tag stays",)

    assert prepare(call(raw), route("up"), Passthrough("too large")).notes == ("too large",)
    assert prepare(call(raw), route("up"), plan_body(raw, notes=notes)).notes == notes


def test_notes_on_the_call_itself_come_first():
    raw = b'{"messages":[]}'
    request = call(raw, notes=("a name is cut",))

    assert prepare(request, route("up"), Passthrough("too large")).notes == (
        "a name is cut",
        "too large",
    )
    assert prepare(request, route("up"), plan_body(raw, notes=("a tag stays",))).notes == (
        "a name is cut",
        "a tag stays",
    )


def test_notes_of_planning_follow_those_of_the_wire():
    raw = body(*conversation_messages(0), seed=7)
    to = route("up", kind="anthropic")
    alone = prepare(call(raw), to).notes

    assert alone
    assert prepare(call(raw), to, Passthrough("too large")).notes == (*alone, "too large")


def test_tags_in_a_responses_call_that_is_not_planned_are_taken_off():
    raw = json.dumps({"model": "m", "input": "<tg:stable>Hello.</tg:stable>"}).encode()
    prepared = prepare(call(raw, endpoint="responses"), route("up"))

    assert json.loads(prepared.body)["input"] == "Hello."


def test_tags_in_a_call_of_anthropics_api_that_is_not_planned_are_taken_off():
    body = b'{"system":"<tg:stable>Be brief.</tg:stable>","messages":[],"max_tokens":1}'
    request = call(body, endpoint="messages", fields=None)

    prepared = prepare(request, route("a", kind="anthropic"))

    assert prepared.body == b'{"system":"Be brief.","messages":[],"max_tokens":1}'
