import hmac
from typing import Any

import pytest

from proxy.services.alerts.configured_sinks import configured_sinks
from proxy.services.alerts.http_sender import HttpSender
from proxy.services.alerts.notifier import LEASE_S, MAX_REFUSALS, SinkBreaker, retry_delay
from slo.alert import Severity, resolve_alert
from slo.alerting import GROUPING_SLOT_S
from slo.policies.sinks import SinkKind
from tests.fakes.alerts import NOW, SECRET, a_sink, an_alert, an_outlet, json_of_post
from tests.fakes.dispatcher_harness import FAILS, OK, REFUSES, dispatcher_harness
from tests.fakes.server import RESET, head


async def test_a_sink_is_told_once_with_a_signature(store):
    async with dispatcher_harness(store, [OK]) as room:
        await room.said(an_alert())
        await room.after(3600)
        (request,) = room.got
        timestamp = request.headers["x-thriftgate-timestamp"]
        signed = timestamp.encode() + b"." + request.body
        mac = hmac.new(SECRET.encode(), signed, "sha256").hexdigest()

        assert request.headers["x-thriftgate-signature"] == f"sha256={mac}"
        assert request.headers["content-type"] == "application/cloudevents+json"
        assert room.subjects() == [["chat-ttft"]]


async def test_alerts_that_come_together_are_sent_together_the_most_urgent_first(store):
    async with dispatcher_harness(store, [OK]) as room:
        notes = [an_alert(f"n{n}", severity=Severity.NOTE) for n in range(3)]
        await room.said(*notes, an_alert("page"))

        assert len(room.got) == 1
        assert room.subjects()[0][0] == "page"
        assert len(room.subjects()[0]) == 4


@pytest.mark.parametrize("fault", [FAILS, [RESET], [head(302, "location: /x")]])
async def test_a_sink_that_fails_is_told_again_later_under_the_same_id(store, fault):
    async with dispatcher_harness(store, [fault, OK]) as room:
        await room.said(an_alert())
        await room.after(1)
        assert len(room.got) == 1
        await room.after(1)
        await room.after(3600)

        first, second = (json_of_post(request) for request in room.got)
        assert first["id"] == second["id"]
        assert first["data"] == second["data"]


async def test_a_sink_that_is_away_for_long_is_asked_ever_less_and_loses_nothing(store, caplog):
    async with dispatcher_harness(store, [FAILS]) as room:
        await room.said(an_alert("a"))
        for _ in range(3_600):
            await room.after(1)
        post_count = len(room.got)
        room.alerts.enqueue(an_alert("b"))
        room.server.answers = [OK]
        await room.after(0)
        await room.after(330)
        await room.after(330)

        assert 10 < post_count < 25
        subjects = {subject for post in room.subjects()[post_count:] for subject in post}
        assert subjects == {"a", "b"}
    assert caplog.text.count("fails and is tried again later: it answered 500") == 1


async def test_a_sink_s_wish_to_be_left_alone_is_granted(store):
    async with dispatcher_harness(
        store, [[head(429, "retry-after: 120", "content-length: 0")], OK]
    ) as room:
        await room.said(an_alert())
        await room.after(119)
        assert len(room.got) == 1
        await room.after(1)
        assert len(room.got) == 2


async def test_an_end_is_told_with_its_duration_cost_and_what_was_done(store):
    async with dispatcher_harness(store, [OK]) as room:
        await room.said(an_alert())
        over = resolve_alert(an_alert(), NOW + 600, "It moved back", 3_000_000_000)
        await room.said(over)
        (alert,) = json_of_post(room.got[1])["data"]["alerts"]

        assert room.types() == ["open", "resolved"]
        assert (alert["seconds"], alert["cost_usd"], alert["action"]) == (600, "3", "It moved back")


async def test_an_open_alert_is_sent_again_after_four_hours_as_another_event(store):
    async with dispatcher_harness(store, [OK]) as room:
        await room.said(an_alert())
        for _ in range(9):
            await room.after(3600)

        assert room.types() == ["open"] * 3
        assert len({json_of_post(request)["id"] for request in room.got}) == 3


async def test_a_service_is_told_of_each_alert_by_itself_and_of_its_end_by_the_same_title(store):
    async with dispatcher_harness(store, [OK]) as room:
        url = {"URL": f"json://127.0.0.1:{room.server.port}/hook"}
        (outlet,), _ = configured_sinks([a_sink(SinkKind.APPRISE, at_least=Severity.NOTE)], url)
        room.alerts = room.beside(outlet)
        await room.said(an_alert("a"), an_alert("b"))
        await room.said(resolve_alert(an_alert("a"), NOW + 60))
        events = [(event["type"], event["title"]) for event in map(json_of_post, room.got)]

        begun = [("failure", f"{name} burns its error budget") for name in "ab"]
        assert sorted(events[:2]) == begun
        assert events[2:] == [("success", begun[0][1])]


async def test_alertmanager_is_told_every_minute_and_at_last_of_the_end(store):
    async with dispatcher_harness(store, [OK]) as room:
        room.alerts = room.beside(an_outlet(room.server, SinkKind.ALERTMANAGER))
        await room.said(an_alert())
        for _ in range(3):
            await room.after(60)
        await room.said(resolve_alert(an_alert(), room.now))
        await room.after(3600)
        bodies = [json_of_post(request)[0] for request in room.got]

        assert len(bodies) == 5
        assert all(request.line == "POST /hook/api/v2/alerts HTTP/1.1" for request in room.got)
        assert len({str(body["labels"]) for body in bodies}) == 1
        assert bodies[-1]["endsAt"] < bodies[-2]["endsAt"]


async def test_a_refused_message_is_sent_by_itself(store):
    async with dispatcher_harness(store, [REFUSES, REFUSES, OK]) as room:
        await room.said(an_alert("a"), an_alert("b"))
        for _ in range(3):
            await room.after(60)
        letters = await room.store.ask(room.store.outbox.last_messages, 9)

        assert [len(post) for post in room.subjects()] == [2, 1, 1, 1]
        assert [(letter.tries, letter.why) for letter in letters] == [(0, ""), (0, "")]


async def test_a_message_that_a_sink_keeps_refusing_is_given_up(store, caplog):
    async with dispatcher_harness(store, [REFUSES]) as room:
        await room.said(an_alert())
        for _ in range(MAX_REFUSALS + 5):
            await room.after(600)
        (letter,) = await room.store.ask(room.store.outbox.last_messages, 9)

        assert len(room.got) == MAX_REFUSALS
        assert (letter.tries, letter.due, letter.why) == (MAX_REFUSALS, None, "it answered 400")
    assert caplog.text.count("which is given up") == 1


async def test_a_delivery_longer_than_its_lease_is_left_to_the_next_holder(store):
    async with dispatcher_harness(store, [OK]) as room:

        class SlowSender(HttpSender):
            async def send(self, *args: Any) -> None:
                await super().send(*args)
                room.now += LEASE_S

        async with SlowSender(2) as room.post:
            room.alerts = room.beside(an_outlet(room.server))
            await room.said(an_alert("a"), an_alert("b", kind="floor"))
            assert len(room.got) == 1
            await room.after(0)

        assert sorted(room.subjects()) == [["a"], ["b"]]


async def test_a_process_that_dies_with_a_letter_leaves_it_to_another(store):
    async with dispatcher_harness(store, [OK]) as room:
        room.alerts.enqueue(an_alert())
        await room.after(0)
        room.now += GROUPING_SLOT_S
        outbox = room.store.outbox
        assert len(await room.store.ask(outbox.claim_due, "on-call", room.now, 9, LEASE_S)) == 1
        await room.after(LEASE_S - 1)
        assert room.got == []
        await room.after(1)

        assert room.subjects() == [["chat-ttft"]]


def test_a_sink_that_fails_is_left_alone_for_a_while_and_then_tried():
    breaker = SinkBreaker("a")
    until = breaker.record_failure(NOW)

    assert 1.5 <= until - NOW <= 2
    assert not breaker.admits(until - 0.01)
    assert breaker.admits(until)


def test_each_failure_waits_longer_and_a_success_forgets_them():
    breaker = SinkBreaker("a")
    waits = [breaker.record_failure(NOW) - NOW for _ in range(20)]

    assert waits[:8] == sorted(waits[:8])
    assert waits[-1] <= 300
    breaker.record_success()
    assert breaker.record_failure(NOW) - NOW == waits[0]


@pytest.mark.parametrize(
    ("retry_after", "least", "longest"), [(60.0, 60, 60), (1e9, 300, 300), (0.1, 1, 2)]
)
def test_a_sinks_retry_after_is_respected_within_bounds(retry_after, least, longest):
    assert least <= SinkBreaker("a").record_failure(NOW, retry_after) - NOW <= longest


def test_two_who_wait_for_the_same_come_back_at_different_times_always_the_same():
    pauses = {retry_delay(5, f"process {n}") for n in range(50)}

    assert len(pauses) == 50
    assert all(24 <= pause <= 32 for pause in pauses)
    assert retry_delay(5, "a") == retry_delay(5, "a")
