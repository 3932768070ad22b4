"""States of teams under rules outlive a restart; what cannot be read is left out."""

import asyncio
import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.fast_path.small_first.call_traits import read_traits
from proxy.fast_path.small_first.judge_channel import Verdict
from proxy.fast_path.small_first.loss_control import LossPromise, new_control
from proxy.services.fast_path.small_first_states import (
    TeamControl,
    small_first_files,
    state_pieces,
)
from proxy.services.fast_path.state_files import StateFiles

KEY = ("team_1", "first")
TRAITS = read_traits("Say the number 1.", has_schema=False, tools=0, turns=1)


def state(calls: int = 300) -> TeamControl:
    made = TeamControl(new_control(LossPromise()), agreements=3, pairs=4)
    for number in range(calls):
        made.control.decide(str(number), "chat", TRAITS, (0.1, 0.1))
        made.control.learn("chat", TRAITS, 0.0)
    return made


def save(files: StateFiles[TeamControl], states: dict[tuple[str, str], TeamControl]) -> None:
    asyncio.run(files.save(states))


def test_state_is_as_it_was_after_a_restart(tmp_path):
    saved = state()
    save(small_first_files(tmp_path), {KEY: saved})

    loaded = small_first_files(tmp_path).load()

    assert loaded == {KEY: saved}
    draws = (0.5, 0.5)
    decided = [one.control.decide("x", "chat", TRAITS, draws) for one in (saved, loaded[KEY])]
    assert decided[0] == decided[1]


def test_only_states_that_changed_are_written_again(tmp_path):
    files, states = small_first_files(tmp_path), {KEY: state(), ("team_2", "first"): state()}
    save(files, states)
    for path in tmp_path.iterdir():
        path.unlink()

    states[KEY].control.decide("new", "chat", TRAITS, (0.5, 0.5))
    save(files, states)

    assert set(small_first_files(tmp_path).load()) == {KEY}


def test_state_is_encoded_on_a_thread_as_it_was_when_saving_began(tmp_path):
    live = state(60)
    live.control.decide("awaited", "chat", TRAITS, (0.0, 0.0))
    before = copy.deepcopy(live)

    async def run_late(function: Any, key: Any, stored: Any) -> None:
        assert not isinstance(stored, bytes)
        for number in range(60):
            live.control.decide(f"late {number}", "other", TRAITS, (0.0, 0.0))
            live.control.learn("chat", TRAITS, 1.0)
        live.control.record_verdict("awaited", Verdict.WORSE)
        live.pairs += 1
        function(key, stored)

    save(small_first_files(tmp_path, run_late), {KEY: live})

    assert live != before
    assert small_first_files(tmp_path).load() == {KEY: before}


def test_large_state_is_encoded_in_pieces_that_stop_other_threads_for_a_moment_only():
    large = state(1)
    record = large.control.model.features["chat"]
    record.neighbours = [(2**250 + number, 0.5) for number in range(200)]
    large.control.model.features = {f'a "{number}"': record for number in range(100)}
    for number in range(3_000):
        large.control.decide(str(number), "chat", TRAITS, (0.0, 0.0))

    pieces = list(state_pieces(large))

    assert max(map(len, pieces)) < 32_768
    assert sum(map(len, pieces)) > 1_000_000
    assert msgspec.json.decode(b"".join(pieces), type=TeamControl) == large


def test_file_goes_with_its_state(tmp_path):
    files = small_first_files(tmp_path)
    save(files, {KEY: state()})

    save(files, {})

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"form": "old", "team": "a", "name": "b", "state": {}}', b"\xff"],
    ids=["empty", "torn", "of another form", "no text"],
)
def test_file_that_cannot_be_read_is_left_out(tmp_path, content):
    save(small_first_files(tmp_path), {KEY: state()})
    (tmp_path / "other.json").write_bytes(content)

    assert set(small_first_files(tmp_path).load()) == {KEY}


def test_state_that_cannot_be_written_stops_nothing(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")

    save(small_first_files(tmp_path / "file"), {KEY: state(1)})

    assert "was not stored" in caplog.text


def test_nothing_is_loaded_from_a_folder_that_is_not_there(tmp_path: Path):
    assert small_first_files(tmp_path / "none").load() == {}
