"""Files of states: written whole, bounded, and left out where they cannot be read."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from proxy.services.fast_path.state_files import StateFiles, StateForm

KEY = ("team_1", "faq")


class NumberState(msgspec.Struct):
    number: int


def files_in(folder: Path, tag: str = "1") -> StateFiles[NumberState]:
    form = StateForm(
        title="count",
        tag=tag,
        read=msgspec.json.Decoder(NumberState).decode,
        version=lambda state: state.number,
        copy=lambda state: NumberState(state.number),
        pieces=lambda state: iter((b'{"number":', str(state.number).encode(), b"}")),
    )
    return StateFiles(folder, form)


def test_state_is_read_as_it_was_written_in_pieces(tmp_path):
    asyncio.run(files_in(tmp_path).save({KEY: NumberState(3), ('a"b', ""): NumberState(4)}))

    assert files_in(tmp_path).load() == {KEY: NumberState(3), ('a"b', ""): NumberState(4)}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_state_of_another_form_is_begun_anew_in_silence(tmp_path, caplog):
    asyncio.run(files_in(tmp_path).save({KEY: NumberState(3)}))

    assert files_in(tmp_path, tag="2").load() == {}
    assert caplog.text == ""


@pytest.mark.parametrize("content", [b"", b'{"form": "1", "team": "a", "name": "b", "state": {}}'])
def test_state_that_is_torn_or_of_another_shape_is_left_out(tmp_path, caplog, content):
    (tmp_path / "torn.json").write_bytes(content)

    assert files_in(tmp_path).load() == {}
    assert "The state of a count was not read" in caplog.text
