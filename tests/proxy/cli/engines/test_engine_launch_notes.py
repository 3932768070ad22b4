"""Notes on what keeps a profile from being started on this machine, and on who answers."""

import socket
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from proxy.cli.engines.engine_launch_notes import launch_notes, program_problem, silent_replicas
from proxy.engines.profiles import EngineProfile
from proxy.engines.state.replica_report import ProcessState
from proxy.engines.state.state_file import EngineState
from tests.fakes.engine_pages import report
from tests.fakes.engine_profiles import a_profile
from tests.fakes.free_port import free_port

GATEWAY_PORT = 8080
PROGRAM = f'program = ["{sys.executable}"]\n'


def notes(profile: EngineProfile, supervised: tuple[str, ...] = ()) -> list[str]:
    return list(launch_notes(profile, GATEWAY_PORT, supervised))


def sound_profile(table: str = "", model: str = "org/m") -> EngineProfile:
    """A profile that can be started, but for what the table says."""
    return replace(a_profile(f"{PROGRAM}port = {free_port()}\n{table}"), model=model)


def test_profile_that_can_be_started_has_no_launch_notes():
    assert notes(sound_profile()) == []
    assert notes(a_profile('replicas = ["http://a:1/v1"]\nserved_name = "m"')) == []


def test_a_missing_program_is_named_with_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert program_problem(a_profile("")) == (
        "vllm is not installed or not on the PATH: install it with `pip install vllm` in an"
        " environment of its own, or name another program in the field program of [engines.house]."
    )
    assert "my-server is not installed" in program_problem(a_profile('program = "my-server"'))


def test_files_that_do_not_exist_are_named(tmp_path):
    draft = 'speculative = { method = "draft_model", draft = "~/d.gguf", tokens = 3 }'
    gone, tilde = notes(sound_profile(draft, model=str(tmp_path / "gone.gguf")))

    assert f"model {tmp_path}/gone.gguf does not exist here" in gone
    assert tilde.startswith("draft ~/d.gguf begins with ~")


def test_the_gateways_own_port_and_one_that_is_taken_are_named():
    assert notes(replace(sound_profile(), port=GATEWAY_PORT))[0] == (
        "port 8080 is the gateway's own: write another port."
    )
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        profile = replace(sound_profile(), port=other.getsockname()[1])

        assert "is taken by another program" in notes(profile)[0]
        assert notes(profile, supervised=("house",)) == []


@pytest.mark.parametrize("is_supervised", [False, True])
def test_replicas_that_nobody_listens_for_are_silent(is_supervised):
    down = free_port()
    with closing(socket.create_server(("127.0.0.1", 0))) as up:
        port = up.getsockname()[1]
        profile = replace(sound_profile("replicas = 2"), port=down)
        states = []
        if is_supervised:  # a rolling change moved the first replica to another port
            moved = report(str(port), ProcessState.READY)
            states = [
                EngineState(profile="house", pid=1, started=0.0, replicas=(moved,), is_running=True)
            ]
        silent = silent_replicas([profile], states)

    assert ("house:0" in silent) is not is_supervised
    assert "house:1" in silent
    assert "`thriftgate engine serve house` starts it" in silent["house:1"]
    assert silent_replicas([], []) == {}
