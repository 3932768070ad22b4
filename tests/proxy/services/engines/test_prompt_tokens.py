"""Token ids of prompts, by their engine's own tokenizer."""

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson

from proxy.records.call import Call
from proxy.services.engines.prompt_tokens import DEADLINE_S, PromptTokenizer
from tests.fakes.answers import failed_answer
from tests.fakes.call_dependencies import call, route
from tests.fakes.upstream import After, FakeTransport, Piece, ScriptedAnswer, broken_connection
from tests.fakes.virtual_clock import run_in_virtual_time

T = TypeVar("T")
TOKENS = ScriptedAnswer([b'{"count":3,"max_model_len":64,"tokens":[7,8,9]}'])
WORDS = array("I", [7, 8, 9]).tobytes()
URL = "http://a:1/v1"
MESSAGES = [{"role": "user", "content": "Hello"}]


def chat(**fields: Any) -> Call:
    body = {"model": "public", "messages": MESSAGES, "max_tokens": 5, **fields}
    return call(orjson.dumps(body))


def play(
    story: Callable[[PromptTokenizer], Awaitable[T]], *scripts: ScriptedAnswer | Piece
) -> tuple[T, FakeTransport]:
    async def whole() -> tuple[T, FakeTransport]:
        transport = FakeTransport(scripts)
        tokenizer = PromptTokenizer(transport, asyncio.get_running_loop().time)
        return await story(tokenizer), transport

    return run_in_virtual_time(whole)


ROUTE = route("house:0", model="m")


def test_the_engine_is_asked_for_what_the_prompt_is_made_of_and_nothing_else():
    tools = [{"type": "function"}]
    answer, transport = play(lambda t: t.token_bytes(chat(tools=tools), ROUTE, URL), TOKENS)

    assert answer == WORDS
    ((_, sent),) = transport.sent
    assert sent.path == "/tokenize"
    assert orjson.loads(sent.body) == {"model": "m", "messages": MESSAGES, "tools": tools}


def test_a_prompt_is_tokenized_once():
    async def story(tokenizer: PromptTokenizer) -> list[bytes | None]:
        return [await tokenizer.token_bytes(chat(max_tokens=n), ROUTE, URL) for n in (1, 2)]

    answer, transport = play(story, TOKENS)

    assert answer == [WORDS, WORDS]
    assert len(transport.sent) == 1


def test_a_call_does_not_wait_beyond_the_deadline():
    async def story(tokenizer: PromptTokenizer) -> tuple[bytes | None, float]:
        token_bytes = await tokenizer.token_bytes(chat(), ROUTE, URL)
        return token_bytes, asyncio.get_running_loop().time()

    slow = ScriptedAnswer([After(9.0, b'{"tokens":[1]}')])

    assert play(story, slow)[0] == (None, DEADLINE_S)


def test_an_engine_that_cannot_is_asked_no_more_for_a_while():
    async def story(tokenizer: PromptTokenizer) -> bytes | None:
        for number in range(9):
            request = chat(messages=[{"role": "user", "content": str(number)}])
            assert await tokenizer.token_bytes(request, ROUTE, URL) is None
        await asyncio.sleep(11.0)
        return await tokenizer.token_bytes(chat(), ROUTE, URL)

    answer, transport = play(
        story, failed_answer(404), broken_connection(), ScriptedAnswer([b"{}"]), TOKENS
    )

    assert answer == WORDS
    assert len(transport.sent) == 4


def test_other_endpoints_large_and_unreadable_bodies_are_not_asked_about():
    large = chat(messages=[{"role": "user", "content": "x" * 300_000}])

    async def story(tokenizer: PromptTokenizer) -> list[bytes | None]:
        calls = [large, call(b'{"input":"a"}', endpoint="embeddings"), call(b'{"model":"m"}')]
        return [await tokenizer.token_bytes(call_, ROUTE, URL) for call_ in calls]

    answer, transport = play(story)

    assert answer == [None, None, None]
    assert transport.sent == []
