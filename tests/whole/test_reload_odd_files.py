"""Odd files in place of a catalog: the old one stays in force, and later changes work."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.serve_process import ServeProcess, serve_process


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Path]:
    with running_in_thread(lambda: running_simulator(tmp_path)) as (_, path):
        yield path


@pytest.fixture
def gateway(tmp_path: Path, catalog: Path) -> Iterator[ServeProcess]:
    with serve_process(tmp_path, catalog) as running:
        running.start()
        yield running


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def notes(gateway: ServeProcess) -> list[str]:
    """The notes of a gateway that is ready, which has the key of no real provider."""
    status, ready = gateway.probe("/readyz")
    assert status == 200
    return [note for note in ready.get("notes", []) if "fail" in note]


def nest_deeply(path: Path) -> None:
    path.write_text("x = " + "[" * 100_000)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link_to_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def empty(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("spoil", [nest_deeply, make_pipe, link_to_device, empty])
def test_odd_catalog_is_noted_a_sound_one_and_a_signal_work_again_and_a_stop_is_quick(
    gateway: ServeProcess, catalog: Path, spoil: Callable[[Path], None]
) -> None:
    sound = catalog.read_text()
    spoil(catalog)
    wait_until(lambda: bool(notes(gateway)))
    os.kill(gateway.pid, signal.SIGHUP)
    wait_until(lambda: gateway.log().count("in force stay") >= 2)
    catalog.unlink()
    catalog.write_text(sound)
    wait_until(lambda: not notes(gateway))
    reloads = gateway.log().count("Reloaded:")
    os.kill(gateway.pid, signal.SIGHUP)
    wait_until(lambda: gateway.log().count("Reloaded:") > reloads)
    spoil(catalog)
    wait_until(lambda: bool(notes(gateway)))
    began = time.monotonic()

    assert gateway.stop() == 0
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("spoil", [nest_deeply, make_pipe, link_to_device])
def test_start_with_an_odd_catalog_fails_with_its_path_and_the_reason(
    tmp_path: Path, catalog: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(catalog)
    with serve_process(tmp_path, catalog) as running, pytest.raises(AssertionError) as failed:
        running.start()

    error = str(failed.value)
    assert f"{catalog}:1: is " in error
    assert "Traceback" not in error
