"""A TCP wire to a server that can be cut and mended."""

import selectors
import socket
import threading
from contextlib import closing, suppress
from typing import Self


class WireCut:
    """Passes bytes between 127.0.0.1:``port`` and a server, except while it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._cut = threading.Event()
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._cut.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def close_connections(self) -> None:
        """Close every connection, and close new ones at once."""
        self._cut.set()

    def mend(self) -> None:
        """Let new connections through."""
        self._cut.clear()

    def _accept(self) -> None:
        while not self._stop.is_set():
            with suppress(TimeoutError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pass_on, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, client: socket.socket) -> None:
        with closing(client):
            if self._cut.is_set():
                return
            with socket.create_connection(self._server) as server, suppress(OSError):
                self._pump(client, server)

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with selectors.DefaultSelector() as selector:
            for end in other:
                selector.register(end, selectors.EVENT_READ)
            while not self._cut.is_set():
                for key, _ in selector.select(0.02):
                    end = client if key.fileobj is client else server
                    piece = end.recv(1 << 16)
                    if not piece:
                        return
                    other[end].sendall(piece)
