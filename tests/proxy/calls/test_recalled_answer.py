"""An answer in rounds, around a transport that plays scripts."""

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from compaction.recall.tool_index import TOOL_NAME
from proxy.calls.recalled_answer import RecalledAnswer, RecalledReader, RecallRound
from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.errors import UpstreamError
from proxy.providers.readers import PassthroughReader
from proxy.providers.recalls.chat_recalls import ChatRecallFilter
from proxy.providers.recalls.recall_filter import RecallRequest
from tests.fakes.upstream import EVENTS, ScriptedAnswer, unreachable
from tests.proxy.calls.begun_answer import begin_answer

Json = dict[str, Any]
USAGE = {"prompt_tokens": 9, "completion_tokens": 3}


def event(delta: Json, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + orjson.dumps({"id": "c1", "choices": [choice]}) + b"\n\n"


def stream(*words: str, recalls: bool = False) -> ScriptedAnswer:
    pieces = [event({"role": "assistant"}), *(event({"content": word}) for word in words)]
    if recalls:
        function = {"name": TOOL_NAME, "arguments": '{"id":"1"}'}
        pieces.append(event({"tool_calls": [{"index": 0, "id": "a", "function": function}]}))
    usage = orjson.dumps({"id": "c1", "choices": [], "usage": USAGE})
    end = [event({}, "tool_calls" if recalls else "stop"), b"data: " + usage + b"\n\n"]
    return ScriptedAnswer([*pieces, *end, b"data: [DONE]\n\n"], headers=EVENTS)


class FakeRounds:
    """Rounds that play scripts, the last of which may be an error or the end."""

    def __init__(self, *scripts: ScriptedAnswer | UpstreamError | None) -> None:
        self.scripts = list(scripts)
        self.finished: list[tuple[UpstreamAnswer, bool]] = []
        self.is_accepted = False

    async def open(
        self, request: RecallRequest, finished: UpstreamAnswer, *, has_delivered: bool
    ) -> RecallRound | None:
        """The next script's round."""
        assert request.calls[0].arguments == '{"id":"1"}'
        self.finished.append((finished, has_delivered))
        script = self.scripts.pop(0)
        if isinstance(script, UpstreamError):
            raise script
        if script is None:
            return None
        return RecallRound(await begin_answer(script, generates=True), None)


async def pieces_of(answer: RecalledAnswer) -> list[bytes]:
    await answer.commit()
    pieces = [answer.first_piece]
    while piece := await answer.next():
        pieces.append(piece)
    return pieces


async def begin_recalled(first: ScriptedAnswer, rounds: FakeRounds) -> RecalledAnswer:
    begun = await begin_answer(first, generates=True)
    return RecalledAnswer(begun, None, rounds, ChatRecallFilter(TOOL_NAME, streamed=True))


def text_of(pieces: Sequence[bytes]) -> str:
    blocks = b"".join(pieces).split(b"\n\n")
    chunks = [orjson.loads(block[6:]) for block in blocks if block and b"[DONE]" not in block]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_recalls_before_any_word_are_answered_before_the_first_piece():
    async def work() -> None:
        rounds = FakeRounds(stream(recalls=True), stream("It ", "is."))
        answer = await begin_recalled(stream(recalls=True), rounds)
        await answer.commit()

        assert not rounds.scripts
        assert [delivered for _, delivered in rounds.finished] == [False, False]
        assert all(round_.meter.usage is not None for round_, _ in rounds.finished)
        assert b"It " in answer.first_piece
        assert b"tool_calls" not in answer.first_piece

    asyncio.run(work())


def test_words_before_a_recall_are_delivered_and_the_next_round_goes_on():
    async def work() -> None:
        rounds = FakeRounds(stream("It ", "is."))
        answer = await begin_recalled(stream("Let me look.", recalls=True), rounds)
        pieces = await pieces_of(answer)

        assert text_of(pieces) == "Let me look.\n\nIt is."
        assert [delivered for _, delivered in rounds.finished] == [True]
        assert answer.meter.is_complete

    asyncio.run(work())


def test_an_answer_without_a_further_round_ends_as_one_that_stopped():
    async def work() -> None:
        answer = await begin_recalled(stream("Let me look.", recalls=True), FakeRounds(None))
        pieces = await pieces_of(answer)

        assert text_of(pieces) == "Let me look."
        assert b'"finish_reason":"stop"' in b"".join(pieces)
        assert await answer.next() == b""

    asyncio.run(work())


@pytest.mark.parametrize("is_accepted", [True, False])
def test_a_round_that_fails_leaves_no_meter_of_the_round_before(*, is_accepted: bool):
    async def work() -> None:
        rounds = FakeRounds(unreachable())
        rounds.is_accepted = is_accepted
        answer = await begin_recalled(stream("Let me look.", recalls=True), rounds)
        with pytest.raises(UpstreamError):
            await pieces_of(answer)

        assert answer.meter.usage is None
        assert answer.generates is is_accepted

    asyncio.run(work())


def test_the_reader_of_a_recalled_answer_ends_it_for_its_caller():
    class Upper(PassthroughReader):
        def feed(self, piece: bytes) -> bytes:
            return piece.upper()

    async def work() -> None:
        answer = await begin_recalled(stream("It is."), FakeRounds())
        reader = RecalledReader(answer, Upper())
        pieces = await pieces_of(answer)

        assert b"IT IS." in b"".join(map(reader.feed, pieces))
        assert reader.end() == b""

    asyncio.run(work())
