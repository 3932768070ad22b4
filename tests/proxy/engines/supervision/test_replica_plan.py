"""The commands of replicas over a rolling change, and one of real llama.cpp under streams."""

import asyncio
import json
import sys
from dataclasses import replace

from proxy.engines.profiles import Engine, EngineProfile, RollingOrder
from proxy.engines.supervision.replica_plan import plan_replicas
from proxy.engines.supervision.supervisor import EngineSupervisor
from tests.fakes.engine_profiles import a_profile, tiny_models
from tests.fakes.engines import QUICK, real_ports, until
from tests.fakes.free_port import free_port
from tests.fakes.tiny_engine import needs_wheel


def test_the_commands_of_a_plan_are_those_of_the_profile():
    profile = a_profile("replicas = 2\nport = 9000")
    first, second = plan_replicas(profile, "python").commands()

    assert first.base_url == "http://127.0.0.1:9000/v1"
    assert second.base_url == "http://127.0.0.1:9001/v1"
    assert second.env["CUDA_VISIBLE_DEVICES"] == "1"
    assert (first.replica, second.replica) == (0, 1)


def test_a_replica_keeps_its_gpus_on_whatever_port():
    plan = plan_replicas(a_profile("replicas = 2\nport = 9000\ntensor_parallel = 2"), "python")
    moved = plan.build(1, 9007)

    assert moved.env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert moved.health_url == "http://127.0.0.1:9007/health"
    assert moved.argv[moved.argv.index("--port") + 1] == "9007"


def test_ports_of_other_profiles_and_those_taken_are_left_out():
    profile = a_profile("port = 9000")
    others = [profile, replace(a_profile("port = 9001\nreplicas = 2"), name="other")]
    plan = plan_replicas(profile, "python", others)

    nearest = next(plan.free_commands(0, {9000}))
    assert nearest.base_url == "http://127.0.0.1:9003/v1"


def test_replicas_on_gpus_are_stopped_first_where_another_one_serves():
    assert plan_replicas(a_profile("replicas = 2"), "python").stops_first
    assert not plan_replicas(a_profile(""), "python").stops_first
    assert not plan_replicas(a_profile("replicas = 2\ngpus = 0", "llamacpp"), "python").stops_first
    named = a_profile('replicas = 2\nrolling_order = "start_first"')
    assert named.rolling_order is RollingOrder.START_FIRST
    assert not plan_replicas(named, "python").stops_first


def test_control_replicas_run_without_speculation():
    table = 'replicas = 2\nspeculative = { method = "ngram", control_replicas = 1 }'
    first, second = plan_replicas(a_profile(table), "python").commands()

    assert (first.speculation, second.speculation) == ("ngram:3", "none")
    assert "--speculative-config" in first.argv
    assert "--speculative-config" not in second.argv


def test_each_replica_is_known_by_the_weights_that_its_evidence_belongs_to():
    table = 'replicas = 2\nspeculative = { method = "auto", draft = "d", control_replicas = 1 }'
    commands = plan_replicas(a_profile(table), "python").commands()

    assert [command.weights for command in commands] == [("m.gguf", "d")] * 2


@needs_wheel
def test_no_stream_of_real_replicas_breaks_during_a_rolling_change(tmp_path):
    profile = EngineProfile(
        name="tiny",
        engine=Engine.LLAMACPP,
        model=str(tiny_models() / "target.gguf"),
        port=free_port(),
        gpus=0,
        max_model_len=2_048,
        max_sequences=2,
        extra_args=("--threads", "1", "--threads-batch", "1", "--threads-http", "4"),
    )
    plans = [
        plan_replicas(replace(profile, max_sequences=slots), sys.executable) for slots in (2, 3)
    ]

    why, ends, urls = asyncio.run(_change_under_streams(plans, tmp_path))

    assert why == ""
    assert set(ends) == {"[DONE]"}
    assert len(urls) == 2


async def _change_under_streams(plans, folder):
    """Change from the first plan to the second while four callers stream, one after another."""
    settings = replace(QUICK, withdrawal_s=0.5)
    supervisor = EngineSupervisor(
        plans[0].commands(), folder, real_ports(), settings, lambda _: None
    )
    ends: list[str] = []
    urls: set[str] = set()
    done = asyncio.Event()

    async def ask():
        while not done.is_set():
            url = supervisor.ready_urls[0]
            urls.add(url)
            ends.append(await _last_event(url))

    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        await until(lambda: supervisor.ready_urls)
        async with asyncio.TaskGroup() as callers:
            for _ in range(4):
                callers.create_task(ask())
            await asyncio.sleep(0.2)
            why = await supervisor.change(plans[1])
            await asyncio.sleep(0.2)
            done.set()
        supervisor.stop()
        await running
    return why, ends, urls


async def _last_event(url):
    """The last event of a stream of 150 tokens, "[DONE]" where none is lacking."""
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": "Tell me a story of the fox."}],
            "max_tokens": 150,
            "stream": True,
            "ignore_eos": True,
        }
    )
    host = url.split("/")[2]
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*host.split(":"))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
        kind = f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + kind + body).encode())
        answer = (await reader.read(-1)).decode()
        writer.close()
    assert answer.startswith("HTTP/1.1 200"), answer[:200]
    return [line for line in answer.splitlines() if line.startswith("data: ")][-1][6:]
