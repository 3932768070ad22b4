"""Faults of a real engine under supervision: llama.cpp's server on the tiny model."""

import asyncio
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path

import httpx2

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.state.replica_report import ProcessState
from proxy.engines.supervision.restart_policy import RestartPolicy
from tests.fakes.engines import is_alive, until
from tests.fakes.tiny_engine import PATIENT, needs_wheel, supervise_engine, tiny_profile

pytestmark = needs_wheel
_STREAMS = 50
_KEEPS_TRYING = replace(
    PATIENT, restart=RestartPolicy(first_delay_s=0.02, max_delay_s=0.1, max_exits=1_000)
)


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


def test_a_real_engine_starts_answers_and_stops_without_a_process_left(tmp_path):
    profile = tiny_profile()

    async def story(supervisor):
        pid = await ready_pid(supervisor)
        async with httpx2.AsyncClient(trust_env=False) as client:
            return pid, await stream_text(client, profile, "Hello!")

    supervisor, (pid, (status, text)) = supervise_engine(profile, tmp_path, story)

    assert status == 200
    assert text.endswith("data: [DONE]\n\n")
    assert supervisor.reports[0].state is ProcessState.STOPPED
    assert not is_alive(pid)


def test_a_real_engine_killed_while_it_loads_is_started_again(tmp_path):
    async def story(supervisor):
        await until(lambda: supervisor.reports[0].pid)
        first = supervisor.reports[0].pid
        os.kill(first, signal.SIGKILL)
        await ready_pid(supervisor, not_pid=first)
        return first

    supervisor, first = supervise_engine(tiny_profile(), tmp_path, story)

    assert supervisor.reports[0].restarts == 1
    assert not is_alive(first)


def test_a_real_engine_without_its_model_is_a_crash_loop_with_the_reason(tmp_path):
    profile = replace(tiny_profile(), model="/nowhere/model.gguf")

    async def story(supervisor):
        await until(lambda: supervisor.is_lost)

    supervisor, _ = supervise_engine(profile, tmp_path, story)
    (report,) = supervisor.reports

    assert report.state is ProcessState.CRASH_LOOP
    assert report.last_lines
    assert "Check the model's path and the port." in Path(report.log).read_text(encoding="utf8")


def test_a_real_engine_starts_once_its_port_is_free(tmp_path):
    profile = tiny_profile()

    async def story(supervisor):
        await until(lambda: supervisor.reports[0].reason)
        reason = supervisor.reports[0].reason
        listener.close()
        await ready_pid(supervisor)
        return reason

    with socket.create_server((profile.host, profile.port)) as listener:
        _, reason = supervise_engine(profile, tmp_path, story, _KEEPS_TRYING)

    assert str(profile.port) in reason


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
