import asyncio
import socket
from datetime import timedelta
from pathlib import Path
from tempfile import gettempdir

import pytest
from openai import AsyncOpenAI

from proxy.tools.demo.session import HOST, TEAMS, DemoClock, run_session
from tests.proxy.tools.demo.scripts import NOW, Says, a_stage, plan, send_calls


def folders() -> set[Path]:
    return set(Path(gettempdir()).glob("thriftgate-demo-*"))


def test_the_clock_runs() -> None:
    ticks = [5.0]
    clock = DemoClock(NOW, lambda: ticks[0])
    ticks[0] = 7.5

    assert clock() == NOW.timestamp() + 2.5


def test_the_clock_jumps_ahead_and_never_back() -> None:
    clock = DemoClock(NOW, lambda: 5.0)
    clock.reach(NOW + timedelta(minutes=3))
    clock.reach(NOW + timedelta(minutes=1))

    assert clock() == (NOW + timedelta(minutes=3)).timestamp()


def test_two_teams_have_a_key_each() -> None:
    async def scene() -> None:
        async with a_stage() as staged:
            assert set(staged.keys) == set(TEAMS)
            assert set(staged.names.values()) == set(TEAMS)
            assert len(set(staged.keys.values())) == len(TEAMS)

    asyncio.run(scene())


def test_a_demo_session_leaves_no_file_and_uses_no_real_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database = tmp_path / "mine.db"
    monkeypatch.setenv("THRIFTGATE_DATABASE_URL", f"sqlite:///{database}")
    monkeypatch.setenv("THRIFTGATE_FOLDER", str(tmp_path / "mine"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    async def scene() -> None:
        async with a_stage():
            assert len(folders()) == 1

    asyncio.run(scene())

    assert list(tmp_path.iterdir()) == []


def test_the_next_free_port_is_taken() -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]

        async def base_url() -> str:
            async with run_session(now=NOW, start=NOW, port=port) as staged:
                return staged.base_url

        chosen = int(asyncio.run(base_url()).removesuffix("/v1").rpartition(":")[2])

    assert port < chosen <= port + 100


def test_no_free_port_is_an_error_that_says_so() -> None:
    async def scene() -> None:
        async with run_session(now=NOW, start=NOW, port=65_535):
            pytest.fail("there is a stage")

    with socket.create_server((HOST, 65_535)), pytest.raises(OSError, match="no port from 65535"):
        asyncio.run(scene())


def test_the_providers_caches_are_at_work() -> None:
    async def scene() -> list[int]:
        async with a_stage() as staged:
            says = Says("Refunds are paid within fourteen days. " * 300, length=2)
            return [call.cached for call in await send_calls(staged, plan(says))]

    first, second = asyncio.run(scene())

    assert first == 0
    assert second > 1024


def test_every_model_of_the_catalog_that_chat_completions_serve_answers() -> None:
    async def scene() -> dict[str, str]:
        async with a_stage() as staged:
            models = staged.gateway.catalog.models
            unasked = {n for n, m in models.items() if "responses_only" in m.routes[0].traits}
            names = [n for n in models if "embedding" not in n and n not in unasked]
            calls = plan(*(Says("Hello! [[fault:words=5]]", model=name) for name in names))
            answers = await send_calls(staged, calls)
            return {answer.planned.model: answer.error for answer in answers if answer.error}

    assert asyncio.run(scene()) == {}


def test_embedding_models_answer() -> None:
    async def scene() -> int:
        async with a_stage() as staged:
            key = staged.keys[TEAMS[0]]
            async with AsyncOpenAI(base_url=staged.base_url, api_key=key) as client:
                embeddings = await client.embeddings.create(
                    model="text-embedding-3-small", input="Hi"
                )
                return len(embeddings.data[0].embedding)

    assert asyncio.run(scene()) == 1536
