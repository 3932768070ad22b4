"""A call's way from attempt to attempt."""

from dataclasses import replace
from math import inf

import msgspec
import pytest

from proxy.calls.attempts.attempt import AnswerBeginning
from proxy.calls.attempts.steps import StartedAttempt
from proxy.calls.ports import CallContext, CheaperRoute
from proxy.calls.route_choice import RouteChoice, RoutingDecision, requested_routes
from proxy.calls.translation.converted_calls import ConvertedCall
from proxy.catalog.entries import Route
from proxy.errors import CallerError, UpstreamError
from tests.fakes.call_dependencies import catalog, route
from tests.fakes.chaos import two_model_catalog
from tests.fakes.upstream import broken_connection
from tests.proxy.calls.sequenced_routes import course, line

WRONG = UpstreamError("no", status=400, code="invalid", retryable=False)
UNREAD = UpstreamError("no", status=400, code="invalid_encrypted_content", retryable=False)
TOO_LONG = UpstreamError("no", status=400, code="context_length_exceeded", retryable=False)


def tries(on: CallContext, *failures: UpstreamError) -> list[tuple[int, str, float | None]]:
    """Number, route and what follows, of attempts that end in these failures."""
    way, attempts = course(on), []
    for failure in failures:
        opening = way.next_attempt()
        attempts.append(
            (
                opening.info.number,
                opening.choice.route.name,
                way.pause_after_failure(opening, failure),
            )
        )
    return attempts


def test_the_next_route_is_tried_at_once_then_the_models_that_may_answer_instead():
    assert tries(
        line(), broken_connection(), broken_connection(), broken_connection(), broken_connection()
    ) == [
        (0, "one/m", 0.0),
        (1, "two/m", 0.0),
        (2, "small/m", 0.25),
        (3, "small/m", None),
    ]


def test_a_prompt_that_is_too_long_goes_to_a_model_with_room():
    assert tries(line(), TOO_LONG, TOO_LONG, TOO_LONG)[1:] == [
        (1, "two/m", 0.0),
        (2, "small/m", None),
    ]


def test_an_invalid_call_goes_to_no_other_route():
    assert tries(line(), WRONG) == [(0, "one/m", None)]


def test_reasoning_that_an_upstream_cannot_decrypt_is_left_out_once():
    """The key of the upstream became another organisation's in the middle of a conversation."""
    way, attempts = course(line()), []
    for _ in range(3):
        opening = way.next_attempt()
        translated = ConvertedCall(opening.info.call, (), lambda reader: reader)
        info = msgspec.structs.replace(opening.info, translated=translated)
        opening.reach(StartedAttempt(info=info))
        pause = way.pause_after_failure(opening, UNREAD)
        attempts.append((opening.choice.route.name, opening.choice.reasoning, pause))
        if pause is None:
            break

    assert attempts == [("one/m", "sealed", 0.0), ("one/m", "unread", None)]
    assert tries(line(), UNREAD) == [(0, "one/m", None)]  # the caller's own call is its own


def test_a_call_that_a_substitute_refuses_goes_to_the_requested_model():
    on = line()
    here, there = requested_routes(on.call, on.deps.catalog)
    moved = RouteChoice(there.route, "small", "chat: level 1")
    way = course(on, RoutingDecision(choices=(moved, here), level=1))

    assert way.pause_after_failure(way.next_attempt(), WRONG) == 0.0
    last = way.next_attempt()
    assert (last.choice, way.pause_after_failure(last, WRONG)) == (here, None)


def test_a_substitute_that_refuses_the_call_does_not_hide_why_the_model_asked_for_failed():
    way = course(line())
    outages = [broken_connection(), broken_connection()]
    for failure in outages:
        way.pause_after_failure(way.next_attempt(), failure)
    substitute = way.next_attempt()
    way.pause_after_failure(substitute, WRONG)

    assert way.final_failure(substitute, WRONG) is outages[-1]


def test_a_substitute_that_is_away_is_why_the_call_failed():
    way = course(line())
    for failure in (broken_connection(), broken_connection()):
        way.pause_after_failure(way.next_attempt(), failure)
    substitute, away = way.next_attempt(), broken_connection()
    way.pause_after_failure(substitute, away)

    assert way.final_failure(substitute, away) is away


def test_a_model_that_cannot_do_it_does_not_follow():
    tools = b'{"model":"m","tools":[{}]}'

    assert tries(line(tools), broken_connection(), broken_connection())[-1] == (1, "two/m", 0.25)


def test_a_call_that_continues_upstream_state_goes_to_no_other_model():
    body = b'{"model":"m","previous_response_id":"resp_1"}'

    assert (
        tries(line(body, endpoint="responses"), broken_connection(), broken_connection())[-1][2]
        == 0.25
    )


def test_the_reason_for_another_model_is_known():
    on = line()
    way = course(on)
    for _ in range(2):
        way.pause_after_failure(way.next_attempt(), broken_connection())

    assert way.next_attempt().info.reroute_reason == "fallback: upstream_connection_broken"


def test_an_outage_allows_few_retries():
    on = line(
        catalog=replace(
            two_model_catalog(),
            models={"m": replace(two_model_catalog().models["m"], fallbacks=())},
        )
    )
    paused = [tries(on, broken_connection(), broken_connection())[-1][2] for _ in range(10)]

    assert paused.count(0.25) == 3


def test_routes_that_fail_just_now_come_last():
    on = line()
    for n in range(5):
        on.deps.route_health.record_outcome(
            requested_routes(on.call, on.deps.catalog)[0].route,
            broken_connection(),
            994.0 + n,
            995.0 + n,
        )

    assert [name for _, name, _ in tries(on, broken_connection(), broken_connection())] == [
        "two/m",
        "one/m",
    ]


def test_a_late_answer_is_not_given_up_for_a_route_that_fails():
    on = line()
    way = course(on)
    assert way.has_ready_next
    for n in range(5):
        on.deps.route_health.record_outcome(
            requested_routes(on.call, on.deps.catalog)[1].route,
            broken_connection(),
            994.0 + n,
            995.0 + n,
        )

    assert not way.has_ready_next
    assert way.next_choice is not None


@pytest.mark.parametrize("before", [[], [0.5] * 9])
def test_a_route_that_has_not_begun_of_late_is_passed_over_for_one_that_has(before):
    on = line()
    choices = requested_routes(on.call, on.deps.catalog)
    for choice, seconds in zip(choices[:2], (float("inf"), 0.8), strict=True):
        for ttft_s in [*before, *[seconds] * 3]:
            on.deps.route_health.health_of(choice.route).ttft.record(ttft_s, 999.0)
    decisions = (
        RoutingDecision(choices=choices, deadline=1.0),
        RoutingDecision(choices=choices),
        RoutingDecision(choices=choices, deadline=1.0, is_trial=True),
    )
    routes = [course(on, decision).next_attempt().choice.route.name for decision in decisions]

    assert routes == ["two/m", "one/m", "two/m"]


@pytest.mark.parametrize(
    ("newest", "goes_first"), [(0.8, "one/m"), (1.5, "one/m"), (float("inf"), "two/m")]
)
def test_a_fallback_route_that_begins_no_more_comes_after_the_one_that_was_left_and_recovered(
    newest, goes_first
):
    on = line()
    left, level = requested_routes(on.call, on.deps.catalog)
    for choice, times in (
        (left, [9.0] * 9 + [newest] * 3),
        (level, [0.1] * 9 + [float("inf")] * 3),
    ):
        for seconds in times:
            on.deps.route_health.health_of(choice.route).ttft.record(seconds, 999.0)
    suspect = RouteChoice(left.route, "m", is_suspect=True)
    decision = RoutingDecision(choices=(level, suspect), deadline=1.0, level=1)

    assert course(on, decision).next_attempt().choice.route.name == goes_first


@pytest.mark.parametrize("is_trial", [False, True])
def test_a_route_whose_breaker_is_open_comes_last_in_a_trial_too(is_trial):
    on = line()
    choices = requested_routes(on.call, on.deps.catalog)
    for n in range(5):
        on.deps.route_health.record_outcome(
            choices[0].route, broken_connection(), 994.0 + n, 995.0 + n
        )
    decision = RoutingDecision(choices=choices, deadline=1.0, is_trial=is_trial)

    assert course(on, decision).next_attempt().choice.route.name == "two/m"


def test_the_first_route_that_may_be_quicker_is_brought_forward():
    one, two, three = (RouteChoice(route(name), "m") for name in ("one", "two", "three"))
    way = course(line(), RoutingDecision(choices=(one, two, three)))

    assert not way.bring_forward(lambda _: False)
    assert way.bring_forward(lambda candidate: candidate is three)
    assert way.next_choice is three


def test_the_last_route_may_be_as_late_as_it_likes():
    way = course(line())
    way.advance()

    assert way.is_last
    assert way.next_choice is None
    assert not way.has_ready_next


def test_a_last_resort_is_not_for_what_is_late():
    on = line()
    here, there = requested_routes(on.call, on.deps.catalog)
    decision = RoutingDecision(
        choices=(here, RouteChoice(there.route, "m", "", is_last_resort=True))
    )

    assert not course(on, decision).has_ready_next


@pytest.mark.parametrize(
    ("here", "there", "probes"),
    [
        ([inf] * 3, [0.5] * 3, [True, False]),
        ([inf] * 3, [0.5] * 3 + [inf], [True, True]),  # the route in its place has just been late
        ([inf] * 9 + [0.6], [0.5] * 3, [True, False]),  # began, and later than the other one
        ([inf] * 9 + [0.4], [0.5] * 3, [False, False]),  # begins again: it is first
        ([0.5] * 3, [0.5] * 3, [False, False]),
    ],
)
def test_a_call_shows_every_two_seconds_whether_a_route_that_is_passed_over_begins(
    here, there, probes
):
    on = line()
    choices = requested_routes(on.call, on.deps.catalog)
    for choice, took in zip(choices[:2], (here, there), strict=True):
        for seconds in took:
            on.deps.route_health.health_of(choice.route).ttft.record(seconds, 999.0)
    decision = RoutingDecision(choices=choices, deadline=0.4)

    assert [course(on, decision).is_probe_due(1000.0) for _ in probes] == probes


@pytest.mark.parametrize(
    ("took", "waited", "is_ready"),
    [
        ([], 0.7, False),  # unknown
        ([], 0.81, True),  # the level is overdue
        ([9.0] * 9 + [0.3] * 3, 0.4, True),
        ([9.0] * 9 + [0.3] * 3, 0.2, False),  # as long as it takes, the call has not waited yet
        ([0.3] * 9 + [float("inf")] * 3, 0.7, False),
        ([0.3] * 9 + [float("inf")] * 3, 0.81, True),
    ],
)
def test_a_route_that_was_left_is_for_what_is_late_once_its_latest_calls_began(
    took, waited, is_ready
):
    on = line()
    here, there = requested_routes(on.call, on.deps.catalog)
    on.timeline.started = 1000.0 - waited
    for seconds in took:
        on.deps.route_health.health_of(here.route).ttft.record(seconds, 999.0)
    left = RouteChoice(here.route, "m", is_suspect=True)
    way = course(on, RoutingDecision(choices=(there, left), deadline=0.4, level=1))

    assert way.has_suspect
    assert way.has_ready_next is is_ready


def test_a_call_over_its_ceiling_goes_to_the_cheaper_model_once():
    on = line()
    way = course(on)
    first = way.next_attempt()
    way.switch_model(CheaperRoute("small", "it is cheaper there"))
    second = way.next_attempt()

    assert first.options.may_switch_model
    assert not second.options.may_switch_model
    assert (second.info.number, second.choice.model, second.info.reroute_reason) == (
        0, "small", "it is cheaper there",
    )  # fmt: skip
    assert way.is_last


def test_of_several_at_once_the_number_of_what_went_elsewhere_is_not_used_again():
    way = course(line())
    way.next_attempt()
    way.advance()
    way.next_attempt()
    way.switch_model(CheaperRoute("small", "it is cheaper there"))

    assert way.next_attempt().info.number == 2


@pytest.mark.parametrize("failure", [broken_connection(), TOO_LONG])
def test_no_way_is_endless(failure):
    way, tried = course(line()), 0
    while way.pause_after_failure(way.next_attempt(), failure) is not None:
        tried += 1

    assert tried < 10
    assert way.attempt_count == tried + 1


BEGINNING = AnswerBeginning("So far", "continues one/m after 6 characters: broken")
HUNG = UpstreamError("no", status=504, code="upstream_timeout", retryable=True)


def going_on(name: str) -> Route:
    """A route that goes on from an assistant's last message."""
    made = route(name)
    return replace(made, upstream=replace(made.upstream, continues="last_message"))


def continuations(*routes: Route, failure: UpstreamError) -> list[str]:
    """The routes that go on, in order, after the first broke off its answer with a failure."""
    on = line(catalog=catalog(*routes))
    way = course(on)
    broken = way.next_attempt()
    if not way.plan_continuations(broken.choice, failure):
        return []
    names = [way.next_continuation(BEGINNING).choice.route.name]
    while way.pause_before_continuation(WRONG) == 0.0:
        names.append(way.next_continuation(BEGINNING).choice.route.name)
    return names


def test_an_answer_is_continued_by_the_routes_that_can_and_last_by_its_own():
    routes = (going_on("one"), route("two"), going_on("three"))

    assert continuations(*routes, failure=broken_connection()) == ["three/m", "one/m"]


def test_a_route_that_hung_is_not_asked_to_continue_its_own_answer():
    assert continuations(going_on("one"), going_on("two"), failure=HUNG) == ["two/m"]
    assert continuations(going_on("one"), failure=HUNG) == []


def test_where_no_route_goes_on_there_is_none_to_continue():
    assert continuations(route("one"), route("two"), failure=broken_connection()) == []


def test_the_last_route_that_goes_on_is_tried_again_as_any_last_route_is():
    way = course(line(catalog=catalog(route("one"), going_on("two"))))
    way.plan_continuations(way.next_attempt().choice, broken_connection())
    way.next_continuation(BEGINNING)

    assert way.pause_before_continuation(broken_connection()) == 0.25
    again = way.next_continuation(BEGINNING)
    assert (again.choice.route.name, again.info.number) == ("two/m", 2)
    assert again.options.beginning is BEGINNING
    assert way.pause_before_continuation(broken_connection()) is None


def test_a_refusal_of_our_own_is_not_tried_again():
    way = course(line(catalog=catalog(route("one"), going_on("two"))))
    way.plan_continuations(way.next_attempt().choice, broken_connection())

    assert way.pause_before_continuation(CallerError("no", code="over_budget")) is None
