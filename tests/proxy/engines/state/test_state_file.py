import logging
import os

import pytest

from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.state_file import (
    EngineStateFile,
    locked_profile,
    profile_folder,
    read_engine_states,
)
from proxy.errors import OperatorError

REPLICA = ReplicaReport(
    name="8001",
    base_url="http://127.0.0.1:8001/v1",
    metrics_url="",
    state=ProcessState.CRASH_LOOP,
    since=5.0,
    last_lines=("one", "two"),
)


def test_a_state_is_read_back_and_runs_while_the_lock_is_held(tmp_path):
    folder = profile_folder(tmp_path, "chat")

    with locked_profile(folder):
        EngineStateFile(folder, "chat", 3.0).write([REPLICA])
        (state,) = read_engine_states(tmp_path)

    assert state.is_running
    assert (state.profile, state.pid, state.started) == ("chat", os.getpid(), 3.0)
    assert state.replicas == (REPLICA,)
    assert not read_engine_states(tmp_path)[0].is_running


def test_the_state_is_readable_by_its_owner_alone_and_nothing_else_is_left(tmp_path):
    folder = profile_folder(tmp_path, "chat")
    with locked_profile(folder):
        EngineStateFile(folder, "chat", 3.0).write([REPLICA])

    assert sorted(file.name for file in folder.iterdir()) == ["lock", "state.json"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.iterdir())


def test_a_profile_is_supervised_once(tmp_path):
    folder = profile_folder(tmp_path, "chat")

    with (
        locked_profile(folder),
        pytest.raises(OperatorError, match="chat are served already"),
        locked_profile(folder),
    ):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "engines").write_text("no folder")

    with (
        pytest.raises(OperatorError, match="cannot be written"),
        locked_profile(profile_folder(tmp_path, "chat")),
    ):
        pass


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\nb"])
def test_a_profile_name_that_is_no_folder_name_is_refused(tmp_path, name):
    with pytest.raises(OperatorError, match="letters, digits"):
        profile_folder(tmp_path, name)


def test_an_unreadable_state_is_left_out(tmp_path):
    folder = profile_folder(tmp_path, "chat")
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{")

    assert read_engine_states(tmp_path) == []


def test_a_state_that_cannot_be_written_warns_once(tmp_path, caplog):
    file = EngineStateFile(tmp_path / "gone", "chat", 3.0)

    with caplog.at_level(logging.WARNING):
        file.write([REPLICA])
        file.write([REPLICA])

    assert len(caplog.records) == 1
