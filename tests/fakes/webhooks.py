"""A webhook that gives every request the same answer, for tests that are no coroutines."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from tests.fakes.background_loop import running_in_thread
from tests.fakes.server import Server, head, serving


@contextmanager
def answering_webhook(status: int, variables: str, patch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A webhook whose URL and secret stand in ``…_URL`` and ``…_SECRET``."""

    @asynccontextmanager
    async def made() -> AsyncIterator[Server]:
        async with serving([head(status, "content-length: 0")]) as server:
            yield server

    with running_in_thread(made) as server:
        patch.setenv(f"{variables}_URL", f"http://127.0.0.1:{server.port}/xyzzy")
        patch.setenv(f"{variables}_SECRET", "s3cret")
        yield server
