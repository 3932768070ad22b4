import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from proxy.calls.deadlines import NoWatchdog
from proxy.calls.drafts.draft_choice import choose_draft
from proxy.calls.ports import CallContext
from proxy.calls.route_choice import RouteChoice, RoutingDecision
from proxy.catalog.entries import Model
from proxy.errors import UpstreamError
from proxy.records.receipt import ServedBy
from proxy.records.timeline import Timeline
from slo.policies.drafts import DraftRule
from tests.fakes.answers import STREAMED
from tests.fakes.call_dependencies import KEY, call, fake_dependencies, route
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import FakeTransport
from tests.proxy.calls.drafts.drafted_calls import ASKED_ROUTE, DRAFT_ROUTE

RULE = DraftRule(name="all", model="s")
ASKED = RoutingDecision(choices=(RouteChoice(ASKED_ROUTE, "m"),))


def with_fields(**fields: Any) -> bytes:
    return json.dumps(json.loads(STREAMED) | fields).encode()


def choose(
    body: bytes = STREAMED,
    *,
    rules: tuple[DraftRule, ...] = (),
    is_shared: bool = False,
    failures: int = 0,
    **fields: Any,
) -> tuple[CallContext, RouteChoice | None]:
    table, _ = fake_dependencies(FakeTransport([]), ASKED_ROUTE)
    models = {**table.catalog.models, "s": Model(id="s", routes=(DRAFT_ROUTE,))}
    models["far"] = Model(id="far", routes=(replace(route("far"), window=None),))
    table = replace(table, catalog=replace(table.catalog, models=models), drafts=rules)
    error = UpstreamError("down", status=503, code="down", retryable=True)
    for _ in range(failures):
        table.route_health.record_outcome(DRAFT_ROUTE, error, 0.0, 0.0)
    asked = call(body, **fields)
    context = CallContext(asked, FakeCaller(), table, NoWatchdog(), Timeline(lambda: 0.0))
    return choose_draft(context, ASKED, is_shared=is_shared)


def test_a_header_or_a_rule_names_the_model_whose_route_drafts():
    for _, choice in (choose(draft="s"), choose(rules=(RULE,)), choose(draft="s", rules=(RULE,))):
        assert choice is not None
        assert (choice.model, choice.route.name) == ("s", "small/m")
        assert (choice.served_by, choice.reroute_reason) == (ServedBy.DRAFT, "draft")


def test_a_header_turns_a_rule_off_without_a_note():
    context, choice = choose(draft="off", rules=(RULE,))

    assert (choice, context.call.notes) == (None, ())


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"body": with_fields(stream=False)}, "the call asks for no stream"),
        ({"endpoint": "completions"}, "the call asks for no stream"),
        ({"body": with_fields(n=2)}, "the answer is to have a format, several choices"),
        ({"body": with_fields(response_format={"type": "json_schema"})}, "to have a format"),
        (
            {"body": with_fields(tools=[{"type": "function"}], tool_choice="required")},
            "the answer is to be a tool call",
        ),
        ({"draft": "no-such-model"}, "the catalog has no model no-such-model"),
        ({"draft": "m"}, "m answers itself"),
        ({"draft": "far"}, "far cannot take the call: The length of its window"),
        ({"key": msgspec.structs.replace(KEY, models=frozenset({"m"}))}, "key may not ask for s"),
        ({"regions": frozenset({"eu"})}, "s cannot take the call"),
        ({"is_shared": True}, "other calls may get this answer"),
        ({"failures": 40}, "no route to s may be taken just now"),
    ],
)
def test_a_header_whose_draft_is_not_made_leaves_a_note(changes, note):
    context, choice = choose(**{"draft": "s"} | changes)

    assert choice is None
    assert context.call.notes[0].startswith("no draft: ")
    assert note in context.call.notes[0]


def test_a_rule_whose_draft_is_not_made_leaves_none():
    context, choice = choose(with_fields(n=2), rules=(RULE,))

    assert (choice, context.call.notes) == (None, ())


def test_a_call_that_only_warms_a_prompt_has_no_draft():
    assert choose(rules=(RULE,), feature="warming:chat")[1] is None
