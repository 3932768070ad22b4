"""The engine demo's calls: a stream read into an answer, and answers that break off."""

import asyncio
import re

import httpx2
import pytest

from proxy.errors import OperatorError
from proxy.tools.engine_demo.calls import EngineAnswer, EngineCaller, engine_client

STREAM = """\
data: {"choices": [{"delta": {"role": "assistant", "content": null}}]}

data: {"choices": [{"delta": {"content": "Yes"}}]}

: a comment

data: {"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]}

data: {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 3,
 "prompt_tokens_details": {"cached_tokens": 20}}, "timings": {"draft_n": 4, "draft_n_accepted": 2}}

data: [DONE]

""".replace(",\n ", ", ")


def ask(status: int, text: str) -> EngineAnswer:
    async def story() -> EngineAnswer:
        def answer(request: httpx2.Request) -> httpx2.Response:
            assert request.headers["authorization"] == "Bearer sk-1"
            return httpx2.Response(status, text=text, headers={"x-request-id": "call_1"})

        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            caller = EngineCaller("http://gateway/v1", client, "sk-1")
            return await caller.ask("tiny", [{"role": "user", "content": "May I?"}])

    return asyncio.run(story())


def test_a_stream_is_read_with_its_tokens_and_its_acceptance():
    answer = ask(200, STREAM)

    assert answer.text == "Yes."
    assert answer.call_id == "call_1"
    assert (answer.prompt_tokens, answer.cached_tokens, answer.output_tokens) == (30, 20, 3)
    assert (answer.draft_tokens, answer.accepted_tokens) == (4, 2)
    assert 0 < answer.ttft <= answer.seconds


def test_an_answer_without_speculation_has_no_draft_tokens():
    answer = ask(200, STREAM.replace('"draft_n": 4, "draft_n_accepted": 2', '"prompt_n": 1'))

    assert (answer.draft_tokens, answer.accepted_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (503, '{"error": "too many calls"}', "answered with 503: .*too many calls"),
        (200, 'data: {"error": {"message": "it died"}}\n\n', "broke off: .*it died"),
        (200, "data: {\n\n", "tiny did not answer: DecodeError"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_the_reason(status, text, why):
    with pytest.raises(OperatorError, match=why):
        ask(status, text)


async def read_call(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    assert length is not None
    await reader.readexactly(int(length[1]))


def test_a_call_is_not_lost_on_a_connection_that_the_engine_closes_after_a_stream():
    connections: list[asyncio.StreamWriter] = []

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one call on a connection, and hang up without a word once another is sent."""
        connections.append(writer)
        await read_call(reader)
        text = STREAM.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
        await reader.read(1)
        writer.close()

    async def story() -> list[str]:
        server = await asyncio.start_server(answer_once, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with server, engine_client() as client:
            caller = EngineCaller(url, client)
            first = await caller.ask("tiny", [])
            texts = [first.text, (await caller.ask("tiny", [])).text]
        for connection in connections:
            connection.close()
            await connection.wait_closed()
        return texts

    assert asyncio.run(story()) == ["Yes.", "Yes."]
