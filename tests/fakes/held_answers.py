"""A way to an engine that holds the rest of each streamed answer, so that calls stay under way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

_MAX_BODY_BYTES = 2**24
#: Begins the text of an event; the first events have none.
_TEXT = b'"content":"'


class HeldAnswers:
    """Passes all on, and each stream up to its first text; the rest once released.

    Attributes:
        calls: Calls that it was sent and has not answered.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._released = asyncio.Event()

    def release(self) -> None:
        """Pass the answers on to their ends, and hold none that come later."""
        self._released.set()

    @asynccontextmanager
    async def before(self, base_url: str) -> AsyncIterator[str]:
        """Stand before an engine; the address at which it is reached now."""
        root = base_url.removesuffix("/v1")
        async with aiohttp.ClientSession(auto_decompress=False) as client:

            async def pass_on(request: web.Request) -> web.StreamResponse:
                return await self._pass_on(request, client, root)

            app = web.Application(client_max_size=_MAX_BODY_BYTES)
            app.router.add_route("*", "/{path:.*}", pass_on)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            try:
                yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            finally:
                self.release()
                await runner.cleanup()

    async def _pass_on(
        self, request: web.Request, client: aiohttp.ClientSession, root: str
    ) -> web.StreamResponse:
        is_call = request.path.endswith("/chat/completions")
        self.calls += is_call
        try:
            async with client.request(
                request.method,
                root + request.path_qs,
                data=await request.read(),
                headers={"content-type": request.content_type},
            ) as answer:
                response = web.StreamResponse(status=answer.status)
                response.content_type = answer.content_type
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                    if _TEXT in piece and answer.content_type == "text/event-stream":
                        await self._released.wait()
                return response
        finally:
            self.calls -= is_call
