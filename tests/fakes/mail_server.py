"""An SMTP server that keeps the mails it takes, and refuses or hangs where a test says so."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class FakeMailServer:
    """Speaks as much of SMTP as a client needs, without TLS.

    Attributes:
        replies: The reply to each command in place of its own, such as ``{"RCPT": "550 unknown"}``;
            "" answers never.
        port: Where it listens.
        commands: All that clients said, but for mails.
        mails: Sender, recipient and mail of each that was taken.
    """

    replies: dict[str, str] = field(default_factory=dict)
    port: int = 0
    commands: list[str] = field(default_factory=list)
    mails: list[tuple[str, str, EmailMessage]] = field(default_factory=list)
    _connections: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
        self._connections.add(asyncio.current_task())
        sender = recipient = ""
        writer.write(b"220 mail.test ESMTP\r\n")
        try:
            while line := (await reader.readline()).decode().strip():
                self.commands.append(line)
                verb = line.split()[0].upper()
                sender = _address(line) if verb == "MAIL" else sender
                recipient = _address(line) if verb == "RCPT" else recipient
                reply = self.replies.get(verb, _REPLIES.get(verb, "500 what"))
                if verb == "DATA" and reply.startswith("354"):
                    writer.write(f"{reply}\r\n".encode())
                    reply = await self._take(reader, (sender, recipient))
                if not reply:
                    await reader.read()
                    return
                writer.write(f"{reply}\r\n".encode())
        finally:
            writer.close()

    async def close(self) -> None:
        """Wait until all connections have ended."""
        await asyncio.gather(*filter(None, self._connections))

    async def _take(self, reader: asyncio.StreamReader, addressed: tuple[str, str]) -> str:
        """Read a mail; returns the reply."""
        data = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
        reply = self.replies.get(".", "250 taken")
        if reply.startswith("250"):
            mail = message_from_bytes(data, policy=policy.default)
            self.mails.append((*addressed, mail))
        return reply


_REPLIES: Mapping[str, str] = {
    "EHLO": "250-mail.test\r\n250 8BITMIME",
    "HELO": "250 mail.test",
    "MAIL": "250 ok",
    "RCPT": "250 ok",
    "DATA": "354 go on",
    "QUIT": "221 bye",
}


@asynccontextmanager
async def mail_server_running(**replies: str) -> AsyncIterator[FakeMailServer]:
    """A server on a port of its own; ``dot`` is the reply to a mail's end."""
    named = {("." if verb == "dot" else verb.upper()): reply for verb, reply in replies.items()}
    mail_server = FakeMailServer(named)
    server = await asyncio.start_server(mail_server.answer, "127.0.0.1", 0, limit=16 * 1024 * 1024)
    mail_server.port = server.sockets[0].getsockname()[1]
    try:
        yield mail_server
    finally:
        server.close()
        await mail_server.close()


def _address(line: str) -> str:
    return line.partition("<")[2].partition(">")[0]
