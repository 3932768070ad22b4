"""Objectives, fallback lists, ceilings and alerts as callers and operators meet them, over HTTP.

``python -m tests.bench.incident_http`` lets the whole hour pass, and prints what came of it.
"""

import asyncio
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest

from tests.bench.incident_http import LEVEL, PROMISE, HttpIncidentResult, IncidentPlan, play
from tests.fakes.alerts import json_of_post
from tests.fakes.fallback_gateway import LONG, FallbackGateway, fallback_gateway
from tests.fakes.http_caller import HttpAnswer
from tests.fakes.server import ReceivedAnswer, head
from tests.fakes.server import serving as receiving
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import START, question, virtual_gateway

CEILINGS = """
[[ceilings]]
name = "cent"
feature = "clamped"
limit = "0.01"
on_exceed = ["clamp"]

[[ceilings]]
name = "mill"
feature = "cheap"
limit = "0.002"
on_exceed = ["cheaper", "refuse"]
cheaper = ["spare"]

[[ceilings]]
name = "nothing"
feature = "refused"
limit = "0.000001"
on_exceed = ["clamp", "cheaper", "refuse"]
cheaper = ["spare"]
"""
#: The model's other route is as slow as its first, the small model is not.
TWO_LEVELS = PROMISE.replace('["small"]', '["elsewhere", "small"]')
TWO_ROUTES = 'routes = [{ upstream = "lab" }, { upstream = "other" }]'
SINK = """
[[sinks]]
name = "on-call"
kind = "webhook"
url_env = "ALERTS_URL"
secret_env = "ALERTS_SECRET"
"""
SECRET = "s3cret"


class ToldIncident(NamedTuple):
    """An incident's outcome, and the requests that a webhook got meanwhile."""

    outcome: HttpIncidentResult
    requests: list[ReceivedAnswer]


@pytest.fixture(scope="module")
def told_incident(tmp_path_factory: pytest.TempPathFactory) -> ToldIncident:
    """An incident of two and a half minutes, played once for all tests.

    Delays scatter less than in the whole hour: chance is to decide nothing here.
    """
    plan = IncidentPlan(rate=12.0, later_rate=4.0, scatter=0.3, begins=60.0, ends=210.0, over=630.0)
    folder = tmp_path_factory.mktemp("incident")

    async def story() -> ToldIncident:
        async with receiving([head(200, "content-length: 0")]) as server:
            with pytest.MonkeyPatch.context() as environment:
                environment.setenv("ALERTS_URL", f"http://127.0.0.1:{server.port}/hook")
                environment.setenv("ALERTS_SECRET", SECRET)
                return ToldIncident(await play(folder, plan, SINK), server.got)

    return run_in_virtual_time(story)


@pytest.fixture(scope="module")
def came(told_incident: ToldIncident) -> HttpIncidentResult:
    """The incident's outcome."""
    return told_incident.outcome


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FallbackGateway]:
    """Models with others in their place, and ceilings."""
    with fallback_gateway(tmp_path_factory.mktemp("second"), CEILINGS) as running:
        yield running


def test_every_caller_of_an_incident_is_answered_in_full(came):
    assert len(came.heard) > 3_000
    assert all(
        heard_call.status == 200 and b"[DONE]" in heard_call.body for heard_call in came.heard
    )


def test_an_incident_moves_calls_down_once_and_back_once(came):
    assert len(came.moves) <= 4
    assert 0 < came.first_move_s <= 30
    assert "is degraded" in came.moves[0][1]
    assert "is healthy" in came.moves[-1][1]


def test_objectives_return_to_level_0_within_six_minutes_of_an_incident(came):
    assert came.whole <= 360
    assert came.last_move_s <= 420


def test_few_calls_are_slow_while_the_model_is(came):
    hour = came.hour
    meanwhile = [
        heard_call for heard_call in came.heard if hour.begins + 30 <= heard_call.began < hour.ends
    ]
    slow = [
        heard_call for heard_call in meanwhile if heard_call.first is None or heard_call.first > 0.5
    ]

    assert len(slow) / len(meanwhile) < 0.15


def test_every_moved_call_says_so(came):
    assert {
        heard_call.call: heard_call.fallback_reason for heard_call in came.heard
    } == came.receipts
    moved = len(came.heard) - came.reasons[""]
    assert came.reasons[LEVEL] > 1_000
    assert came.counted == moved
    for heard_call in came.heard:
        model = heard_call.headers["x-thriftgate-model"]
        assert model == ("small" if heard_call.fallback_reason else "big")


def test_people_are_told_of_a_move_once_and_that_it_is_over(came):
    (alert,) = [alert for alert in came.alerts if alert.kind == "move"]

    assert alert.subject == "chat-ttft"
    assert alert.began - START == pytest.approx(came.moves[0][0], abs=1e-3)
    assert alert.ended is not None
    assert alert.ended - START == pytest.approx(came.moves[-1][0], abs=1e-3)


@pytest.mark.parametrize("cue", ["503", "429=30", "death-before-content"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_models_fallback_answers_where_its_upstream_fails(gateway, cue, streamed):
    gateway.lab.inject_fault("main", cue)
    try:
        answer = gateway.ask("main", stream=streamed)
        assert list(answer.parse())
    finally:
        gateway.lab.inject_fault("main", "")

    assert answer.headers["x-thriftgate-model"] == "spare"
    (first, last) = gateway.receipts(answer.headers["x-request-id"])
    assert (first.route, first.final, first.reroute_reason) == ("lab/main", False, "")
    assert (last.route, last.final) == ("lab/spare", True)
    assert (
        last.reroute_reason == answer.headers["x-thriftgate-fallback"] == f"fallback: {first.error}"
    )


@pytest.mark.parametrize("model", ["narrow", "narrow-claude"])
def test_a_prompt_that_is_too_long_goes_to_a_model_with_room(gateway, model):
    answer = gateway.ask(model, LONG)

    assert answer.parse().choices[0].message.content
    receipts = gateway.receipts(answer.headers["x-request-id"])
    assert [receipt.final for receipt in receipts] == [False] * (len(receipts) - 1) + [True]
    assert answer.headers["x-thriftgate-model"] == "spare"
    assert answer.headers["x-thriftgate-fallback"] == "fallback: context_length_exceeded"
    assert receipts[-1].reroute_reason == "fallback: context_length_exceeded"
    assert sum(receipt.cost_nanos or 0 for receipt in receipts) == receipts[-1].cost_nanos


def test_without_a_model_with_room_the_caller_is_told_what_the_upstream_said(gateway):
    with pytest.raises(openai.BadRequestError) as refused:
        gateway.ask("alone", LONG)

    assert refused.value.code == "context_length_exceeded"
    assert "maximum context length is 50 tokens" in refused.value.message


def test_a_call_that_is_wrong_in_itself_goes_nowhere_else(gateway):
    with pytest.raises(openai.BadRequestError) as refused:
        gateway.ask("main", "[[fault:400]] Well?")

    (only,) = gateway.receipts(refused.value.response.headers["x-request-id"])
    assert only.route == "lab/main"


def under(feature: str) -> dict[str, str]:
    return {"x-thriftgate-feature": feature}


def test_a_ceiling_lowers_the_output_limit_and_says_so(gateway):
    answer = gateway.ask(
        "main",
        "[[fault:words=400]] Well?",
        max_completion_tokens=300,
        extra_headers=under("clamped"),
    )

    name, _, tokens = answer.headers["x-thriftgate-clamped"].partition("=")
    assert name == "max_completion_tokens"
    assert answer.parse().usage.completion_tokens <= int(tokens) < 100
    assert answer.parse().choices[0].finish_reason == "length"
    assert float(answer.headers["x-thriftgate-cost-usd"]) <= 0.01
    (only,) = gateway.receipts(answer.headers["x-request-id"])
    assert only.notes == (f"lowered {name} to {tokens}: the ceiling cent of $0.01 a call",)


def test_a_ceiling_sends_a_call_to_a_cheaper_model_and_says_so(gateway):
    answer = gateway.ask("main", max_completion_tokens=1000, extra_headers=under("cheap"))

    moved = answer.headers["x-thriftgate-fallback"]
    assert answer.headers["x-thriftgate-model"] == "spare"
    assert moved.startswith("the ceiling mill of $0.002 a call")
    assert float(answer.headers["x-thriftgate-cost-usd"]) <= 0.002
    (only,) = gateway.receipts(answer.headers["x-request-id"])
    assert (only.route, only.reroute_reason) == ("lab/spare", moved)


def test_a_ceiling_that_nothing_fits_under_refuses_and_says_what_it_would_cost(gateway):
    exchanges_before = len(gateway.lab.exchanges)
    with pytest.raises(openai.RateLimitError) as refused:
        gateway.ask("main", max_completion_tokens=1000, extra_headers=under("refused"))

    error: Any = refused.value.body
    assert error["code"] == "cost_ceiling"
    assert (error["ceiling"], error["limit"]) == ("nothing", "0.000001")
    assert float(error["predicted"]) > float(error["sure"]) > 0.000001
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert len(gateway.lab.exchanges) == exchanges_before


def test_a_webhook_is_told_of_a_move_and_of_its_end_with_a_signature(told_incident):
    for request in told_incident.requests:
        _check_signature(request)
    alerts = [json_of_post(request) for request in told_incident.requests]
    (moved, over) = [
        (posted["type"], alert)
        for posted in alerts
        for alert in posted["data"]["alerts"]
        if alert["kind"] == "move"
    ]
    assert moved[0] == "thriftgate.alerts.open"
    assert over[0] == "thriftgate.alerts.resolved"
    assert moved[1]["id"] == over[1]["id"]
    assert moved[1]["subject"] == "chat-ttft"
    assert moved[1]["title"] == (
        "chat-ttft is degraded: new conversations go to small, fallback level 1"
    )
    assert over[1]["seconds"] > 60
    assert len({alert["id"] for alert in alerts}) == len(alerts)


@pytest.mark.parametrize("rate", [1, 6])
def test_a_level_that_is_as_slow_is_passed_over_within_15_seconds(tmp_path, rate):
    moves, heard = run_in_virtual_time(lambda: _both_routes_slow(tmp_path, rate))

    assert ["level 0" in line for _, line in moves] == [True, False]
    (down, _), (on, why) = moves
    assert "level 1" in why
    assert on - down <= 15
    behind = [heard_call for heard_call in heard if down <= heard_call.began <= on]
    assert 10 <= len(behind) <= 15 * rate
    after = [heard_call for heard_call in heard if heard_call.began > on]
    small = [
        heard_call
        for heard_call in after
        if heard_call.fallback_reason == "chat-ttft: fallback level 2"
    ]
    assert len(small) > 0.7 * len(after)  # about a tenth try the levels above, by chance
    assert all(heard_call.first is not None and heard_call.first < 0.5 for heard_call in small)


async def _both_routes_slow(
    folder: Path, rate: int
) -> tuple[list[tuple[float, str]], list[HttpAnswer]]:
    """Return when the objective moved and what callers heard, from the tenth second on slowly."""
    async with virtual_gateway(folder, TWO_LEVELS, routes=TWO_ROUTES) as world:
        asyncio.get_running_loop().call_at(10.0, world.lab.inject_fault, "big", "slow=5")
        async with asyncio.TaskGroup() as group:
            calls = []
            for number in range(90 * rate):
                calls.append(group.create_task(world.http_caller.ask(question(number))))
                await asyncio.sleep(1 / rate)
        return world.moves(), [call.result() for call in calls]


def _check_signature(request: ReceivedAnswer) -> None:
    """Check it as a receiver would."""
    timestamp = request.headers["x-thriftgate-timestamp"]
    signed = hmac.digest(SECRET.encode(), timestamp.encode() + b"." + request.body, "sha256").hex()
    assert hmac.compare_digest(request.headers["x-thriftgate-signature"], f"sha256={signed}")
    assert abs(int(timestamp) - START) < 3600
