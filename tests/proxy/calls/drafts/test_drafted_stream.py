import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from proxy.calls.drafts.drafted_stream import DraftCaller, DraftedStream
from proxy.calls.ports import Head
from proxy.errors import UpstreamError
from tests.fakes.answers import COMPLETION, STREAMED, chunk
from tests.fakes.call_dependencies import call
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time, ticks
from tests.fakes.receipts import a_receipt

HEAD = Head(200, {"content-type": "text/event-stream"}, "m", ("a note",))
FAILED = UpstreamError("It broke.", status=502, code="broke", retryable=True)


class SlowCaller(FakeCaller):
    """Takes a second for each piece."""

    async def send(self, piece: bytes) -> None:
        await asyncio.sleep(1.0)
        await super().send(piece)


def stream_of(caller: FakeCaller) -> DraftedStream:
    return DraftedStream(caller, call(STREAMED), "small")


def run(caller: FakeCaller, *steps: Any) -> DraftedStream:
    async def work() -> DraftedStream:
        stream = stream_of(caller)
        for step in steps:
            await step(stream)
        return stream

    return run_in_instant_time(work())


def test_the_head_is_sent_once_with_the_drafts_first_words():
    caller = FakeCaller()
    run(
        caller,
        lambda stream: stream.add_draft("A "),
        lambda stream: stream.add_draft("draft", is_last=True),
        lambda stream: stream.begin(HEAD),
        lambda stream: stream.end(b"data: 1\n\n"),
    )

    assert caller.head is not None
    assert caller.head.headers["x-thriftgate-draft"] == "small"
    assert caller.body.count(b"event: thriftgate.draft\n") == 2
    assert caller.last_piece == b"data: 1\n\n"


def test_nothing_of_the_draft_follows_the_answer():
    caller = FakeCaller()
    run(caller, lambda stream: stream.begin(HEAD), lambda stream: stream.add_draft("late"))

    assert caller.head is HEAD
    assert caller.pieces == []


def test_piece_of_a_draft_under_way_is_sent_whole_before_the_answer_begins():
    caller = SlowCaller()

    async def work() -> None:
        stream = stream_of(caller)
        drafting = asyncio.ensure_future(stream.add_draft("slow"))
        stream.follow(lambda: _end_task(drafting))
        await asyncio.sleep(0.5)
        await stream.begin(HEAD)
        await stream.send(b"data: 1\n\n")

    run_in_instant_time(work())

    assert b"slow" in caller.pieces[0]
    assert caller.pieces[1:] == [b"data: 1\n\n"]


def _end_task(task: asyncio.Task[None]) -> asyncio.Task[None]:
    task.cancel()
    return task


@pytest.mark.parametrize(("takes", "waited"), [(0.02, 0.02), (5.0, 0.05)])
def test_the_second_piece_waits_for_the_drafts_price_but_not_for_long(takes: float, waited: float):
    async def work() -> float:
        stream = stream_of(FakeCaller())
        pricing = asyncio.ensure_future(asyncio.sleep(takes))
        stream.follow(lambda: pricing)
        await stream.begin(HEAD)
        before = ticks()
        await stream.send(b"1")
        assert ticks() == before
        await stream.send(b"2")
        await stream.send(b"3")
        return ticks() - before

    assert run_in_instant_time(work()) == pytest.approx(waited)


def test_an_error_ends_a_stream_that_has_a_draft_alone():
    caller = FakeCaller()
    run(caller, lambda stream: stream.add_draft("A"), lambda stream: stream.end_with_error(FAILED))

    assert b'"code":"broke"' in caller.last_piece


@pytest.mark.parametrize("steps", [(), (lambda stream: stream.begin(HEAD),)])
def test_an_error_without_a_draft_or_with_an_answer_is_left_to_others(steps):
    caller, ended = FakeCaller(), []

    async def end(stream: DraftedStream) -> None:
        ended.append(await stream.end_with_error(FAILED))

    run(caller, *steps, end)

    assert (ended, caller.pieces) == ([False], [])


@pytest.mark.parametrize(("draft", "body"), [("", COMPLETION), ("A", b"answer_not_streamed")])
def test_an_answer_that_is_whole_is_given_only_where_no_draft_began(draft, body):
    async def add(stream: DraftedStream) -> None:
        if draft:
            await stream.add_draft(draft)

    caller = FakeCaller()
    run(caller, add, lambda stream: stream.send_whole(HEAD, COMPLETION, a_receipt()))

    assert body in caller.last_piece


def draft_run(*steps: Any) -> FakeCaller:
    caller = FakeCaller()

    def play(stream: DraftedStream) -> Coroutine[Any, Any, None]:
        async def work() -> None:
            for step in steps:
                await step(DraftCaller(stream, "chat/completions"))

        return work()

    run(caller, play)
    return caller


def test_the_drafts_answer_is_taken_for_its_text_alone():
    async def play(draft: DraftCaller) -> None:
        await draft.begin(HEAD)
        await draft.send(chunk(""))
        await draft.send(chunk("A draft"))
        await draft.end(b"data: [DONE]\n\n")
        assert draft.closing_event(a_receipt()) == b""

    caller = draft_run(play)

    assert [b'"draft":"A draft"' in piece for piece in caller.pieces] == [True, False]
    assert b'"done":true' in caller.pieces[1]


def test_a_draft_without_text_sends_nothing():
    async def play(draft: DraftCaller) -> None:
        await draft.begin(HEAD)
        await draft.send(chunk(""))
        await draft.end(b"")
        await draft.send_whole(HEAD, COMPLETION, a_receipt())

    caller = draft_run(play)

    assert (caller.head, caller.pieces) == (None, [])


def test_the_cost_of_a_draft_is_noted_for_the_calls_account():
    receipt = a_receipt()

    async def play(draft: DraftCaller) -> None:
        draft.note_attempt(receipt)

    assert draft_run(play).attempts == [receipt]
