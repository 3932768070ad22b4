"""The way of a call through the source, as the event loop sees it."""

import asyncio
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import proxy
from proxy.app import gateway
from proxy.settings import Settings
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope
from tests.fakes.databases import migrated_sqlite

#: Files that a reader opens from the API to the upstream's bytes; what those call stands beside.
MAX_FILES = 12
NOW = 1_790_000_000.0
UPSTREAM = """
[upstreams.nowhere]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
key_env = "NOWHERE_KEY"

[[models]]
id = "gpt-nowhere"
upstream = "nowhere"
"""


class RefusingLoop(asyncio.SelectorEventLoop):
    """An event loop that refuses every connection, and remembers whose code asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[str] = []

    async def sock_connect(self, *_: Any) -> NoReturn:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            self.callers.append(frame.f_code.co_filename)
        raise ConnectionRefusedError


def test_a_call_passes_few_files_on_its_way_to_the_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWHERE_KEY", "sk-none")
    catalog = tmp_path / "catalog.toml"
    catalog.write_text(UPSTREAM)
    migrated_sqlite(tmp_path / "gateway" / "thriftgate.db")
    settings = Settings(folder=tmp_path / "gateway", catalog=catalog, retries=0)

    async def send_call() -> int:
        async with gateway(settings) as running:
            team = running.store.teams.create("acme", now=NOW)
            _, key = running.store.teams.create_key(team.id, "first", now=NOW)
            body = b'{"model":"gpt-nowhere","messages":[{"role":"user","content":"hi"}]}'
            head = scope(headers={"authorization": f"Bearer {key}"})
            return (await answer_of_app(running.app, head, AsgiConnection([body]))).status

    with asyncio.Runner(loop_factory=RefusingLoop) as runner:
        assert runner.run(send_call()) == 502
        loop = runner.get_loop()
    assert isinstance(loop, RefusingLoop)

    source = str(Path(proxy.__file__).parent)
    files = list(dict.fromkeys(name for name in loop.callers if name.startswith(source)))
    assert files[0].endswith("upstream/origin.py")
    assert files[-1].endswith("api/endpoint.py")
    assert len(files) <= MAX_FILES, files
