"""Every mix makes calls that the simulator takes, and mistakes that it is meant to make."""

import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from proxy.records.request_fields import parse_request_fields
from tests.fakes.refusals import refusing
from tests.load.mixes import AGENT_TURNS, LOOP_STEPS, MIXES, Step, bad_input, coding_agent

ROOT = Path(__file__).resolve().parents[2]


def play_scene(scene, seed: int = 1) -> list[Step]:
    """The steps of a scene, with answers that say little."""
    running = scene(Random(seed))  # noqa: S311 - variety, no secret
    steps = [next(running)]
    while True:
        try:
            steps.append(running.send("So."))
        except StopIteration:
            return steps


@pytest.mark.parametrize("scene", [mix for mix in MIXES if mix is not bad_input])
def test_bodies_are_ones_that_the_gateway_reads(scene):
    for seed in range(5):
        for step in play_scene(scene, seed):
            read = parse_request_fields(step.data)
            assert read.model
            assert bool(read.stream) == step.is_stream
            assert step.expects == 200


@pytest.mark.parametrize("scene", [mix for mix in MIXES if mix is not bad_input])
def test_every_result_of_a_tool_answers_a_call_before_it(scene):
    for step in play_scene(scene):
        body = json.loads(step.data)
        called: set[str] = set()
        for item in body.get("messages", body.get("input")):
            called |= {tool_call["id"] for tool_call in item.get("tool_calls", ())}
            if item.get("type") == "function_call":
                called.add(item["call_id"])
            answered = item.get("tool_call_id") or (
                item.get("type") == "function_call_output" and item["call_id"]
            )
            assert not answered or answered in called


def test_an_agents_history_grows_and_keeps_what_was_sent():
    bodies = [json.loads(step.data)["messages"] for step in play_scene(coding_agent)]

    assert len(bodies) == AGENT_TURNS
    assert all(after[: len(before)] == before for before, after in pairwise(bodies))
    assert len(json.dumps(bodies[-1])) > 20_000


def test_a_loop_over_a_tool_takes_several_calls():
    loop = next(scene for scene in MIXES if scene.__name__ == "tool_loop")

    assert [len(json.loads(step.data)["input"]) for step in play_scene(loop)] == [
        1 + 2 * number for number in range(LOOP_STEPS)
    ]


def test_every_mistake_is_expected_to_be_refused():
    steps = [step for seed in range(50) for step in play_scene(bad_input, seed)]

    assert {step.expects for step in steps} == {400, 404}
    assert any(isinstance(step.body, str) for step in steps)
    with refusing(400):
        parse_request_fields(next(step for step in steps if isinstance(step.body, str)).data)


def test_streams_and_whole_answers_are_both_asked_for():
    chosen = [step.is_stream for seed in range(9) for s in MIXES for step in play_scene(s, seed)]

    assert {True, False} == set(chosen)


def test_locust_knows_a_user_for_each_mix():
    if importlib.util.find_spec("locust") is None:
        pytest.skip("Locust is not installed; `make load` installs it")
    # In a process of its own, for Locust replaces the standard library's sockets and threads.
    command_line = [sys.executable, "-m", "locust", "-f", "tests/load/locustfile.py", "--list"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # noqa: TID251 - a child needs ours
    done = subprocess.run(  # noqa: S603 - our own command
        command_line,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    names = {scene.__name__.replace("_", " ").title().replace(" ", "") for scene in MIXES}

    assert names <= set((done.stdout + done.stderr).split())
