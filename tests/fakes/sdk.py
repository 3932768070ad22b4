"""The official SDK, sync and async, asked in one way."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import openai

from tests.fakes.plain_http import PLAIN


class Sdk(Protocol):
    """Asks an SDK client; each question is a call on it, such as ``lambda c: c.models.list()``."""

    client: Any

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """Return what the client answers."""
        ...

    def all(self, question: Callable[[Any], Any]) -> list[Any]:
        """All that a stream or a page gives."""
        ...

    def events(self, question: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        """The events of the SDK's stream helper, and the answer it puts together."""
        ...

    def close(self) -> None:
        """Close the client's connections."""
        ...


class Sync:
    """``openai.OpenAI``."""

    def __init__(self, url: str, key: str, **options: Any) -> None:
        options.setdefault("http_client", openai.DefaultHttpxClient(verify=PLAIN))
        self.client = openai.OpenAI(base_url=url, api_key=key, **options)

    def ask(self, question: Callable[[Any], Any]) -> Any:
        return question(self.client)

    def all(self, question: Callable[[Any], Any]) -> list[Any]:
        return list(question(self.client))

    def events(self, question: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        with question(self.client) as stream:
            events = list(stream)
            final = getattr(stream, "get_final_response", None) or stream.get_final_completion
            return events, final()

    def close(self) -> None:
        self.client.close()


class Async:
    """``openai.AsyncOpenAI``, on an event loop of its own."""

    def __init__(self, url: str, key: str, **options: Any) -> None:
        self._loop = asyncio.Runner()
        options.setdefault("http_client", openai.DefaultAsyncHttpxClient(verify=PLAIN))
        self.client = openai.AsyncOpenAI(base_url=url, api_key=key, **options)

    def ask(self, question: Callable[[Any], Any]) -> Any:
        async def answer() -> Any:
            return await question(self.client)

        return self._loop.run(answer())

    def all(self, question: Callable[[Any], Any]) -> list[Any]:
        async def all_pieces() -> list[Any]:
            answer = question(self.client)
            if asyncio.iscoroutine(answer):
                answer = await answer
            return [element async for element in answer]

        return self._loop.run(all_pieces())

    def events(self, question: Callable[[Any], Any]) -> tuple[list[Any], Any]:
        async def read_stream() -> tuple[list[Any], Any]:
            async with question(self.client) as stream:
                events = [event async for event in stream]
                final = getattr(stream, "get_final_response", None) or stream.get_final_completion
                return events, await final()

        return self._loop.run(read_stream())

    def close(self) -> None:
        self._loop.run(self.client.close())
        self._loop.close()


KINDS: dict[str, Callable[..., Sdk]] = {"sync": Sync, "async": Async}

Dial = Callable[..., Sdk]
"""Makes clients that do not retry unless told to; all fields are the client's."""
