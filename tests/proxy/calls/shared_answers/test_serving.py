"""Calls answered from the cache, and equal calls that share one answer."""

import asyncio

import msgspec
import pytest

from proxy.calls.metering.metering import Meter
from proxy.calls.route_choice import RoutingDecision
from proxy.calls.shared_answers.serving import recording_bound
from proxy.errors import UpstreamError
from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope
from proxy.records.call import Call
from proxy.records.receipt import Outcome, ServedBy
from slo.policies.answer_cache import AnswerCachePolicy
from tests.fakes.answers import failed_answer, stream
from tests.fakes.call_dependencies import KEY
from tests.fakes.caller import FakeCaller
from tests.fakes.upstream import After, Piece, ScriptedAnswer, broken_connection
from tests.proxy.calls.shared_answers.shared_calls import (
    BODY,
    EVENTS,
    NOW,
    POLICY,
    STREAMED,
    WHOLE,
    WHOLE_NANOS,
    SharedCalls,
    play,
)

ANSWER = ScriptedAnswer([WHOLE])
LATE = ScriptedAnswer([After(5.0, WHOLE)])
REUSABLE = AnswerCachePolicy(name="all", reusable=True, ttl=60.0)


def test_an_equal_call_is_answered_from_the_cache_with_a_receipt_of_its_own():
    async def make_calls(calls: SharedCalls) -> None:
        first = await calls.make()
        calls.seconds = 12.0
        second = await calls.make()

        assert first.caller.body == second.caller.body == WHOLE
        assert (first.cache, second.cache) == ("miss", "hit; age=12")

    calls = play(ANSWER, make_calls=make_calls)

    assert calls.sent_count == 1
    assert (calls.receipt(1).served_by, calls.receipt(1).cost_nanos) == ("", WHOLE_NANOS)
    hit = calls.receipt(2)
    assert (hit.outcome, hit.status, hit.served_by) == (Outcome.ANSWERED, 200, ServedBy.CACHE)
    assert (hit.cost_nanos, hit.list_nanos, hit.usage, hit.route) == (0, 0, None, "")
    assert hit.fast_path_nanos == WHOLE_NANOS
    assert hit.notes == ("answered from the cache: the answer to call_1, 12 s old",)


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({"cache_control": "no-store"}, REUSABLE),
        ({"cache_control": "no-cache"}, REUSABLE),
        ({"cache_control": "max-age=5"}, REUSABLE),
        ({"feature": "other"}, REUSABLE),
        ({"key": msgspec.structs.replace(KEY, team="team_2")}, REUSABLE),
        ({"endpoint": "completions"}, REUSABLE),
    ],
    ids=["no-store", "no-cache", "max-age", "feature", "team", "endpoint"],
)
def test_a_call_is_sent_where_no_kept_answer_is_for_it(fields, policy):
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        calls.seconds = 10.0
        await calls.make(**fields)

    assert play(ANSWER, ANSWER, make_calls=make_calls, policy=policy).sent_count == 2


class FakeSmallFirst:
    """Has every call answered by a small model."""

    def decide(self, _call: Call, decision: RoutingDecision) -> RoutingDecision:
        choices = tuple(
            msgspec.structs.replace(choice, served_by=ServedBy.SMALL) for choice in decision.choices
        )
        return msgspec.structs.replace(decision, choices=choices)

    def note_answer(self, call: Call, meter: Meter) -> None:
        """Nothing is compared."""


def test_a_small_models_answer_is_neither_kept_nor_shared():
    async def make_calls(calls: SharedCalls) -> None:
        await asyncio.gather(calls.make(), calls.make())
        await calls.make()

    answers = (ANSWER, ANSWER, ANSWER)
    calls = play(*answers, make_calls=make_calls, small_first=FakeSmallFirst())

    assert calls.sent_count == 3
    assert calls.receipt(3).served_by == ServedBy.SMALL


def test_a_call_that_bypasses_the_cache_is_neither_kept_nor_told_of_it():
    async def make_calls(calls: SharedCalls) -> None:
        first = await calls.make(cache_control="no-store")
        await calls.make()

        assert first.caller.head is not None
        assert "x-thriftgate-cache" not in first.caller.head.headers

    assert play(ANSWER, ANSWER, make_calls=make_calls).sent_count == 2


def test_an_answer_given_anew_replaces_the_older_one():
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        calls.seconds = 50.0
        await calls.make(cache_control="no-cache")
        calls.seconds = 70.0
        assert (await calls.make()).cache == "hit; age=20"

    assert play(ANSWER, ANSWER, make_calls=make_calls).sent_count == 2


def test_an_answer_older_than_its_policy_allows_is_not_given_again():
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        calls.seconds = 60.0
        assert (await calls.make()).cache == "miss"

    assert play(ANSWER, ANSWER, make_calls=make_calls).sent_count == 2


@pytest.mark.parametrize(
    "answer",
    [
        failed_answer(400),
        ScriptedAnswer([WHOLE.replace(b'"stop"', b'"length"')]),
        ScriptedAnswer([WHOLE.replace(b'"content":"Hi"', b'"tool_calls":[{"id":"1"}]')]),
        ScriptedAnswer([b'{"error":{"message":"busy","code":"overloaded"}}']),
    ],
    ids=["refused", "truncated", "tool-call", "error"],
)
def test_an_answer_that_is_not_whole_is_not_given_again(answer):
    async def make_calls(calls: SharedCalls) -> None:
        await calls.make()
        assert (await calls.make()).caller.body == WHOLE

    assert play(answer, ANSWER, make_calls=make_calls).sent_count == 2


def test_a_hundred_equal_calls_at_once_are_one_call_upstream():
    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin()
        await asyncio.sleep(1.0)
        done = await asyncio.gather(first, *(calls.begin() for _ in range(99)))

        assert {one.caller.body for one in done} == {WHOLE}
        assert [one.cache for one in done] == ["miss", *["hit; age=0"] * 99]

    calls = play(LATE, make_calls=make_calls)

    assert calls.sent_count == 1
    assert len({receipt.call_id for receipt in calls.receipts}) == len(calls.receipts) == 100
    assert sum(receipt.cost_nanos or 0 for receipt in calls.receipts) == WHOLE_NANOS
    saved = [receipt.fast_path_nanos for receipt in calls.receipts[1:]]
    assert saved == [WHOLE_NANOS] * 99
    assert {receipt.status for receipt in calls.receipts} == {200}


TOOLS = b'"tools":[{"type":"function","function":{"name":"pay"}}],"messages":'
TOOL_CALL = WHOLE.replace(b'"content":"Hi"', b'"tool_calls":[{"id":"1"}]')


@pytest.mark.parametrize(("policy", "sent"), [(POLICY, 2), (REUSABLE, 1)], ids=["not", "reusable"])
@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (BODY, ScriptedAnswer([After(5.0, TOOL_CALL)])),
        (STREAMED, stream(EVENTS[0], After(5.0, EVENTS[1]), *EVENTS[2:])),
    ],
    ids=["whole", "stream"],
)
def test_equal_calls_that_offer_tools_share_an_answer_only_where_it_is_reusable(
    body, answer, policy, sent
):
    async def make_calls(calls: SharedCalls) -> None:
        offering = body.replace(b'"messages":', TOOLS)
        done = await asyncio.gather(calls.begin(offering), calls.begin(offering))

        assert {one.error for one in done} == {None}
        assert calls.cache.flights == {}

    assert play(answer, answer, make_calls=make_calls, policy=policy).sent_count == sent


def test_a_late_joiner_gets_a_stream_from_its_start_as_it_comes():
    pieces: list[Piece] = [EVENTS[0], *(After(1.0, event) for event in EVENTS[1:])]

    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin(STREAMED)
        await asyncio.sleep(1.5)
        late = FakeCaller(trailer=b": late\n\n")
        second = calls.begin(STREAMED, caller=late)
        await asyncio.sleep(0.1)
        assert late.body == b"".join(EVENTS[:2])
        done = await asyncio.gather(first, second)

        assert done[0].caller.body == b"".join(EVENTS)
        assert late.body == b"".join([*EVENTS[:3], b": late\n\n", EVENTS[3]])

    calls = play(stream(*pieces), make_calls=make_calls)

    assert calls.sent_count == 1
    assert calls.receipt(2).outcome is Outcome.ANSWERED
    assert calls.receipt(2).notes == ("shared the answer to an equal call under way",)


def test_the_next_in_line_goes_itself_where_the_first_got_no_answer():
    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin()
        await asyncio.sleep(1.0)
        done = await asyncio.gather(first, calls.begin(), calls.begin())

        assert isinstance(done[0].error, UpstreamError)
        assert [one.caller.body for one in done[1:]] == [WHOLE, WHOLE]
        assert [one.cache for one in done[1:]] == ["miss", "hit; age=0"]

    failing = ScriptedAnswer([After(2.0, b"{")], status=400)
    calls = play(failing, LATE, make_calls=make_calls)

    assert calls.sent_count == 2
    assert [calls.receipt(number).served_by for number in (1, 2, 3)] == ["", "", "cache"]


def test_a_call_waits_for_two_failures_of_others_at_most():
    async def make_calls(calls: SharedCalls) -> None:
        failed = [calls.begin(), calls.begin()]
        last = [calls.begin() for _ in range(3)]
        done = await asyncio.gather(*failed, *last)

        assert [one.error is None for one in done] == [False, False, True, True, True]

    failing = ScriptedAnswer([After(2.0, b"{")], status=400)

    assert play(failing, failing, LATE, LATE, LATE, make_calls=make_calls).sent_count == 5


def test_the_first_call_goes_on_for_others_once_its_own_caller_left():
    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin(caller=FakeCaller(leaves_after=2.0))
        await asyncio.sleep(1.0)
        second = calls.begin()
        done = await asyncio.gather(first, second)

        assert done[1].caller.body == WHOLE

    calls = play(LATE, make_calls=make_calls)

    assert calls.sent_count == 1
    assert calls.receipt(1).outcome is Outcome.ANSWERED
    assert calls.receipt(2).fast_path_nanos == WHOLE_NANOS


def test_a_call_that_nobody_waits_for_any_more_ends():
    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin(caller=FakeCaller(leaves_after=1.0))
        await asyncio.sleep(0.5)
        second = calls.begin(caller=FakeCaller(leaves_after=1.0))
        done = await asyncio.gather(first, second)

        assert [type(one.error).__name__ for one in done] == ["ClientDisconnected"] * 2
        assert calls.cache.flights == {}

    calls = play(ScriptedAnswer([After(500.0, WHOLE)]), make_calls=make_calls)

    assert [receipt.outcome for receipt in calls.receipts] == [Outcome.HUNG_UP] * 2
    assert calls.receipt(2).cost_nanos == 0
    assert calls.receipt(2).served_by is ServedBy.CACHE


def test_a_stream_that_breaks_off_ends_for_all_with_the_same_error():
    broken = stream(EVENTS[0], After(3.0, EVENTS[1]), broken_connection())

    async def make_calls(calls: SharedCalls) -> None:
        done = await asyncio.gather(calls.begin(STREAMED), calls.begin(STREAMED))

        assert done[0].caller.body == done[1].caller.body
        assert b'"error"' in done[0].caller.last_piece
        await calls.make(STREAMED)

    calls = play(broken, stream(*EVENTS), make_calls=make_calls)

    assert calls.sent_count == 2
    assert [calls.receipt(number).outcome for number in (1, 2)] == [Outcome.BROKEN] * 2


def test_a_first_caller_that_reads_slowly_holds_up_no_other():
    async def make_calls(calls: SharedCalls) -> None:
        slow = calls.begin(STREAMED, caller=FakeCaller(reads=1))
        await asyncio.sleep(0.5)
        quick = await calls.begin(STREAMED)

        assert quick.caller.body == b"".join(EVENTS)
        assert not slow.done()
        await slow

    calls = play(stream(EVENTS[0], *(After(1.0, one) for one in EVENTS[1:])), make_calls=make_calls)

    assert calls.sent_count == 1


def test_an_answer_that_its_only_caller_reads_no_more_is_cut_off():
    pieces: list[Piece] = [EVENTS[0], EVENTS[1], *[After(4.0, EVENTS[1])] * 20, *EVENTS[2:]]

    async def make_calls(calls: SharedCalls) -> None:
        begun = asyncio.get_running_loop().time()
        await calls.make(STREAMED, caller=FakeCaller(reads=1))
        assert asyncio.get_running_loop().time() - begun < 20.0

    calls = play(stream(*pieces), make_calls=make_calls)

    assert calls.receipt(1).outcome is Outcome.HUNG_UP


def test_a_call_after_a_purge_shares_no_answer_asked_for_before_it():
    async def make_calls(calls: SharedCalls) -> None:
        first = calls.begin()
        await asyncio.sleep(1.0)
        calls.seconds = 2.0
        calls.cache.note_purge(
            AnswerPurge(team=KEY.team, scope=PurgeScope.TEAM, purged_at=NOW + 1.0)
        )
        later = [calls.begin(), calls.begin()]
        done = await asyncio.gather(first, *later)
        assert [one.cache for one in done] == ["miss", "miss", "hit; age=0"]

    assert play(LATE, LATE, make_calls=make_calls).sent_count == 2


def test_a_call_without_a_seed_or_temperature_0_is_sent_each_time():
    body = BODY.replace(b'"temperature":0', b'"temperature":1')

    async def make_calls(calls: SharedCalls) -> None:
        first = await calls.make(body)
        await calls.make(body)

        assert first.caller.head is not None
        assert "x-thriftgate-cache" not in first.caller.head.headers

    assert play(ANSWER, ANSWER, make_calls=make_calls).sent_count == 2


@pytest.mark.parametrize(
    ("flights", "bound"), [(0, 2**20), (63, 2**20), (127, 2**19), (1_000_000, 2**14)]
)
def test_answers_under_way_share_the_memory_for_recordings(flights, bound):
    assert recording_bound(flights) == bound
