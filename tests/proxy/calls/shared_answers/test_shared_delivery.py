"""An answer that was given before, or is under way, on its way to one more caller."""

import asyncio
from dataclasses import replace

import pytest

from proxy.calls.ports import Head
from proxy.calls.shared_answers.flight import Flight
from proxy.calls.shared_answers.shared_delivery import media_header
from proxy.errors import CallerError
from proxy.records.receipt import Outcome
from tests.fakes.answers import stream
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import After, Piece, ScriptedAnswer
from tests.proxy.calls.shared_answers.shared_calls import (
    EVENTS,
    STREAMED,
    WHOLE,
    CacheWithFaults,
    SharedCalls,
    play,
)

LIMITED = {"content-type": "application/json", "x-ratelimit-remaining-requests": "1"}


def test_a_shared_answer_has_no_limits_or_ids_of_another_call():
    answer = ScriptedAnswer(
        [After(1.0, WHOLE)], headers={**LIMITED, "x-request-id": "req_1", "set-cookie": "a=1"}
    )

    async def make_calls(calls: SharedCalls) -> None:
        shared = await asyncio.gather(calls.begin(), calls.begin())
        done = [*shared, await calls.make()]
        heads = [one.caller.head for one in done]
        assert heads[0] is not None
        assert heads[0].headers["x-ratelimit-remaining-requests"] == "1"
        for head in heads[1:]:
            assert head is not None
            assert set(head.headers) == {"content-type", "x-thriftgate-cache"}

    play(answer, make_calls=make_calls)


def test_a_hit_has_its_receipt_before_the_caller_has_its_answer():
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        taker = FakeCaller(observe=lambda: len(calls.receipts))
        await calls.make(caller=taker)
        assert taker.observed == [2]

    play(ScriptedAnswer([WHOLE]), make_calls=make_calls)


def test_a_stream_is_given_again_byte_for_byte_with_the_second_calls_own_account():
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make(STREAMED, caller=FakeCaller(trailer=b": one\n\n"))
        second = await calls.make(STREAMED, caller=FakeCaller(trailer=b": two\n\n"))
        third = await calls.make(STREAMED)

        assert second.caller.body == b"".join([*EVENTS[:3], b": two\n\n", EVENTS[3]])
        assert third.caller.body == b"".join(EVENTS)
        assert second.caller.receipt == calls.receipt(2)

    assert play(stream(*EVENTS), make_calls=make_calls).sent_count == 1


def test_a_hit_counts_as_a_request_and_is_refused_where_none_is_left():
    class NoRequestsLeft:
        async def admit(self, attempt, prepared, fits):
            raise AssertionError

        async def admit_free(self, attempt):
            raise CallerError("Too many.", code="rate_limit_exceeded", status=429)

    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        calls.table = replace(calls.table, limits=NoRequestsLeft())
        refused = await calls.make()

        assert isinstance(refused.error, CallerError)
        assert refused.caller.head is None

    calls = play(ScriptedAnswer([WHOLE]), make_calls=make_calls)

    assert (calls.receipt(2).outcome, calls.receipt(2).status) == (Outcome.REFUSED, 429)


def test_a_caller_that_leaves_a_shared_stream_has_a_receipt_without_cost():
    pieces: list[Piece] = [EVENTS[0], *(After(2.0, event) for event in EVENTS[1:])]

    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin(STREAMED)
        second = calls.begin(STREAMED, caller=FakeCaller(leaves_after=1.0))
        await asyncio.gather(first, second)

        assert first.result().caller.body == b"".join(EVENTS)

    calls = play(stream(*pieces), make_calls=make_calls)

    left = calls.receipt(2)
    assert (left.outcome, left.error, left.status) == (Outcome.HUNG_UP, "caller_hung_up", 499)
    assert (left.cost_nanos, left.served_by, left.fast_path_nanos) == (0, "cache", None)


def test_a_caller_that_stops_reading_a_shared_stream_is_given_up():
    pieces: list[Piece] = [EVENTS[0], *(After(1.0, event) for event in EVENTS[1:])]

    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin(STREAMED)
        second = calls.begin(STREAMED, caller=FakeCaller(reads=1))
        await asyncio.gather(first, second)

        assert first.result().caller.body == b"".join(EVENTS)

    assert play(stream(*pieces), make_calls=make_calls).receipt(2).outcome is Outcome.HUNG_UP


def test_a_caller_that_leaves_while_a_hit_is_counted_has_a_receipt_without_cost():
    class SlowLimits:
        async def admit(self, attempt, prepared, fits):
            raise AssertionError

        async def admit_free(self, attempt):
            await asyncio.sleep(5.0)
            return {}

    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        calls.table = replace(calls.table, limits=SlowLimits())
        await calls.make(caller=FakeCaller(leaves_after=1.0))

    left = play(ScriptedAnswer([WHOLE]), make_calls=make_calls).receipt(2)

    assert (left.outcome, left.status, left.cost_nanos) == (Outcome.HUNG_UP, 499, 0)


def fail() -> None:
    raise TypeError("unhashable type: 'list'")


@pytest.mark.parametrize("part", ["read", "find", "fetch", "keep", "is_purged", "count"])
def test_a_cache_that_fails_costs_a_call_nothing(part, caplog):
    answer = ScriptedAnswer([After(1.0, WHOLE)])

    async def make_calls(calls: SharedCalls) -> None:
        faulty = CacheWithFaults(calls.cache, **{part: fail})
        calls.table = replace(calls.table, answers=faulty)
        for done in await asyncio.gather(calls.begin(), calls.begin()):
            assert (done.error, done.caller.body) == (None, WHOLE)
        assert calls.cache.flights == {}

    calls = play(answer, answer, make_calls=make_calls)

    assert {calls.receipt(number).outcome for number in (1, 2)} == {Outcome.ANSWERED}
    assert "unhashable" in caplog.text


@pytest.mark.parametrize("part", ["read", "fetch"])
def test_a_caller_that_leaves_while_the_cache_is_asked_has_a_receipt(part):
    async def make_calls(calls: SharedCalls) -> None:
        slow = CacheWithFaults(calls.cache, **{part: lambda: asyncio.sleep(5.0)})
        calls.table = replace(calls.table, answers=slow)
        done = await calls.make(caller=FakeCaller(leaves_after=1.0))
        assert done.error is not None
        assert done.error.status == 499

    calls = play(make_calls=make_calls)

    assert (calls.sent_count, calls.receipt(1).outcome) == (0, Outcome.HUNG_UP)


def test_an_answer_is_kept_though_its_caller_leaves_with_the_last_byte():
    async def make_calls(calls: SharedCalls) -> None:
        slow = CacheWithFaults(calls.cache, keep=lambda: asyncio.sleep(5.0))
        calls.table = replace(calls.table, answers=slow)
        await calls.make(caller=FakeCaller(leaves_after=2.0))
        assert (await calls.make()).cache.startswith("hit")

    assert play(ScriptedAnswer([WHOLE]), make_calls=make_calls).sent_count == 1


def test_a_gateway_that_stops_leaves_a_receipt_of_every_shared_call():
    async def make_calls(calls: SharedCalls) -> None:
        tasks = [calls.begin() for _ in range(3)]
        await asyncio.sleep(1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert calls.cache.flights == {}

    calls = play(ScriptedAnswer([After(50.0, WHOLE)]), make_calls=make_calls)

    assert sorted(receipt.call_id for receipt in calls.receipts) == ["call_1", "call_2", "call_3"]
    assert {receipt.error for receipt in calls.receipts} == {"gateway_interrupted"}


def test_the_media_type_is_the_only_header_of_an_upstreams_that_is_shared():
    head = Head(200, {"Content-Type": "text/event-stream", "x-a": "b"}, "m", ())

    assert media_header(head.headers) == {"content-type": "text/event-stream"}
    assert media_header({}) == {"content-type": ""}


def test_a_flight_without_readers_is_joined_by_nobody():
    flight = Flight("k")
    flight.join().leave()

    assert not flight.is_joinable
