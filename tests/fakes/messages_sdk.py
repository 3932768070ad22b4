"""Anthropic's SDK, sync and async, asked as ``tests.fakes.sdk`` asks OpenAI's."""

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic

from tests.fakes.plain_http import PLAIN
from tests.fakes.sdk import Async, Sdk, Sync

#: A tool that Anthropic's SDK sends.
WEATHER = {
    "name": "weather",
    "description": "The weather of a place.",
    "input_schema": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    },
}


class SyncMessages(Sync):
    """``anthropic.Anthropic``; its base URL ends before ``/v1``."""

    def __init__(self, url: str, key: str, **options: Any) -> None:
        options.setdefault("http_client", anthropic.DefaultHttpxClient(verify=PLAIN))
        options.setdefault("base_url", url.removesuffix("/v1"))
        self.client: Any = anthropic.Anthropic(api_key=key, **options)

    def events(self, question: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        with question(self.client) as stream:
            return list(stream), stream.get_final_message()


class AsyncMessages(Async):
    """``anthropic.AsyncAnthropic``, on an event loop of its own."""

    def __init__(self, url: str, key: str, **options: Any) -> None:
        self._loop = asyncio.Runner()
        options.setdefault("http_client", anthropic.DefaultAsyncHttpxClient(verify=PLAIN))
        options.setdefault("base_url", url.removesuffix("/v1"))
        self.client: Any = anthropic.AsyncAnthropic(api_key=key, **options)

    def events(self, question: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        async def read_stream() -> tuple[list[Any], Any]:
            async with question(self.client) as stream:
                events = [event async for event in stream]
                return events, await stream.get_final_message()

        return self._loop.run(read_stream())


MESSAGES_KINDS: dict[str, Callable[..., Sdk]] = {"sync": SyncMessages, "async": AsyncMessages}
