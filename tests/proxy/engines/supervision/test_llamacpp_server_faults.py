"""Faults of a real engine under supervision: llama.cpp's server on the tiny model."""

import asyncio

import httpx2

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.state.replica_report import ProcessState
from tests.fakes.engines import is_alive, until
from tests.fakes.tiny_engine import needs_wheel, supervise_engine, tiny_profile

pytestmark = needs_wheel
_STREAMS = 50


async def ready_pid(supervisor, not_pid=0):
    """The process of the engine, once it is ready."""
    await until(lambda: supervisor.ready_urls and supervisor.reports[0].pid != not_pid)
    return supervisor.reports[0].pid


async def stream_text(client, profile, question, max_tokens=40):
    """All that a stream brought, as it came."""
    body = {
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "stream": True,
        "ignore_eos": True,
    }
    url = f"{LLAMACPP.urls(profile).base_url}/chat/completions"
    async with client.stream("POST", url, json=body, timeout=60) as answer:
        return answer.status_code, "".join([text async for text in answer.aiter_text()])


def test_a_real_engine_that_is_drained_ends_all_of_fifty_streams(tmp_path):
    profile = tiny_profile()

    async def story(supervisor):
        pid = await ready_pid(supervisor)
        limits = httpx2.Limits(max_connections=_STREAMS)
        async with (
            httpx2.AsyncClient(trust_env=False, limits=limits) as client,
            asyncio.TaskGroup() as tasks,
        ):
            streams = [
                tasks.create_task(stream_text(client, profile, f"Question {number}"))
                for number in range(_STREAMS)
            ]
            await until(lambda: any(stream.done() for stream in streams))
            supervisor.stop()
        return pid, [stream.result() for stream in streams]

    supervisor, (pid, answers) = supervise_engine(profile, tmp_path, story)

    assert [status for status, _ in answers] == [200] * _STREAMS
    assert all(text.endswith("data: [DONE]\n\n") for _, text in answers)
    assert supervisor.reports[0].state is ProcessState.STOPPED
    assert not is_alive(pid)
