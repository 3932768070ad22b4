"""Callers of a gateway, on the loop that runs: connections they keep, and when what arrived."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

_WORD = re.compile(rb'"content":"[^"]')


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """An answer.

    Attributes:
        headers: Names in lower case.
        body: Whole.
        began: When the call was made, in seconds of the loop.
        first: Seconds until its first word; None where none came.
        took: Seconds until its end.
        is_whole: Whether it came to its end.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    began: float
    first: float | None
    took: float
    is_whole: bool = True

    @property
    def fallback_reason(self) -> str:
        """The reason why another model answered; "" where none did."""
        return self.headers.get("x-thriftgate-fallback", "")

    @property
    def call(self) -> str:
        """The call's id."""
        return self.headers.get("x-request-id", "")

    @property
    def error(self) -> dict[str, Any]:
        """The error's fields; {} for an answer."""
        document: dict[str, Any] = orjson.loads(self.body)["error"] if self.status >= 400 else {}
        return document


class HttpCaller:
    """Calls one gateway with one key."""

    def __init__(self, url: str, key: str) -> None:
        where = httpx.URL(url)
        self._at = (where.host, where.port or 80)
        self._path = where.path.rstrip("/")
        self._key = key
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(
        self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """The answer to a chat call.

        Raises:
            OSError: If nobody takes it.
        """
        return await self.post("/chat/completions", orjson.dumps(body), headers)

    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """The answer to these bytes.

        Raises:
            OSError: If nobody takes them.
        """
        began = asyncio.get_running_loop().time()
        reader, writer = await self._line()
        lines = {
            "host": "gateway",
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "content-length": f"{len(body)}",
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"POST {self._path}{path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        try:
            heard = await _heard(reader, began)
        except BaseException:
            writer.close()
            raise
        if heard.is_whole:
            self._idle.append((reader, writer))
        else:
            writer.close()
        return heard

    async def close(self) -> None:
        """Hang up on all idle lines."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _line(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(*self._at)


async def _heard(reader: asyncio.StreamReader, began: float) -> HttpAnswer:
    loop = asyncio.get_running_loop()
    status, headers, body, first, is_whole = 0, {}, bytearray(), None, False
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.strip().split("\r\n")
        status = int(line.split()[1])
        headers = {n.lower(): v for n, _, v in (field.partition(": ") for field in fields)}
        left = int(headers.get("content-length", "-1"))
        while left:
            size = left if left > 0 else int(await reader.readline(), 16)
            body += await reader.readexactly(size)
            left = 0 if left > 0 or not size else left
            if headers.get("transfer-encoding") == "chunked":
                await reader.readexactly(2)
            if first is None and _WORD.search(body):
                first = loop.time() - began
        is_whole = True
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    return HttpAnswer(
        status=status,
        headers=headers,
        body=bytes(body),
        began=began,
        first=first,
        took=loop.time() - began,
        is_whole=is_whole,
    )
