"""Begins answers of a fake transport."""

from proxy.calls.upstream_answer import UpstreamAnswer
from proxy.providers.openai.adapter import OpenAIWire
from proxy.records.timeline import Timeline
from tests.fakes.clock import ticks
from tests.fakes.upstream import FakeExchange, ScriptedAnswer


async def begin_answer(script: ScriptedAnswer, *, generates: bool = False) -> UpstreamAnswer:
    answer = UpstreamAnswer(
        FakeExchange(script), OpenAIWire(), Timeline(ticks), generates=generates
    )
    await answer.commit()
    return answer


async def answer_and_pieces(script: ScriptedAnswer) -> tuple[UpstreamAnswer, list[bytes]]:
    answer = await begin_answer(script)
    pieces = [answer.first_piece]
    while piece := await answer.next():
        pieces.append(piece)
    assert await answer.next() == b""
    return answer, pieces
