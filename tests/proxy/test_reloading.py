"""Reloading: whole or not at all, and never without a word."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from proxy.configuration import Prepare, Snapshot, read_snapshot
from proxy.errors import OperatorError
from proxy.reloading import Reloader
from proxy.settings import Settings

BUDGET = '[[budgets]]\nname = "day"\nscope = "team"\nunit = "usd"\nwindow = "day"\nlimit = "{}"\n'
MODEL = """
[upstreams.mine]
kind = "openai"
base_url = "https://mine.test/v1"

[[models]]
id = "mine"
upstream = "mine"
price = {{ input = "{}", output = "4" }}
"""


class SnapshotFollower:
    """Follows snapshots, or refuses them."""

    def __init__(self, refuses: str = "") -> None:
        self.held: list[Snapshot] = []
        self._refuses = refuses

    async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
        if self._refuses:
            raise OperatorError(self._refuses)
        return lambda: self.held.append(snapshot)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "catalog.toml").write_text(MODEL.format("1"))
    (tmp_path / "policies.toml").write_text(BUDGET.format("5"))
    return Settings(catalog=tmp_path / "catalog.toml", policies=tmp_path / "policies.toml")


def reloader(settings: Settings, *rooms: Prepare) -> Reloader:
    made = Reloader(settings, read_snapshot(settings), lambda: 7.0)
    for room in rooms:
        made.follow(room)
    return made


def figure(reloading: Reloader, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(reloading)
    return registry.get_sample_value(f"thriftgate_config_{name}", labels)


def test_a_reload_hands_every_room_the_same_snapshot(settings, tmp_path):
    rooms = SnapshotFollower(), SnapshotFollower()

    async def run() -> Reloader:
        made = reloader(settings, *(room.prepare for room in rooms))
        (tmp_path / "policies.toml").write_text(BUDGET.format("6"))
        assert await made.reload()
        return made

    made = asyncio.run(run())
    assert [room.held for room in rooms] == [[made.snapshot], [made.snapshot]]
    assert made.snapshot.policies.budgets[0].limit == 6_000_000_000
    assert made.notes() == []
    assert figure(made, "last_reload_successful") == 1
    assert figure(made, "last_reload_success_timestamp_seconds") == 7
    assert figure(made, "reloads_total", result="success") == 1


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("policies.toml", BUDGET.format("0"), "policies.toml:6: budgets.day.limit"),
        ("policies.toml", "[[budgets]", "policies.toml:1: is not TOML"),
        ("catalog.toml", MODEL.format("cheap"), "catalog.toml:9"),
        ("catalog.toml", None, "catalog.toml"),
        ("catalog.toml", "x = " + "[" * 100_000, "catalog.toml:1: is nested too deeply"),
        ("catalog.toml", ".".join("a" * 2_000) + " = 1", "catalog.toml:1: is nested too deeply"),
        ("policies.toml", "x = " + "9" * 5_000, "policies.toml:1: has a number beyond all bounds"),
        ("policies.toml", "#" * (4 << 20) + "#", "policies.toml:1: is larger than 4 MiB"),
        ("catalog.toml", "", "catalog.toml is empty; restart if that is meant"),
        ("policies.toml", "", "policies.toml is empty; restart if that is meant"),
        (
            "catalog.toml",
            MODEL[: MODEL.index("[[models]]")],
            "take away all your own models (1 model); restart if that is meant",
        ),
    ],
)
def test_a_file_that_fails_leaves_the_snapshot_in_force_and_says_where(
    settings, tmp_path, file, text, problem, caplog
):
    room = SnapshotFollower()

    async def run() -> tuple[Reloader, Snapshot]:
        made = reloader(settings, room.prepare)
        before = made.snapshot
        # The other file changes, too, and is sound: not even that takes effect.
        (tmp_path / "policies.toml").write_text(BUDGET.format("6"))
        (tmp_path / file).unlink()
        if text is not None:
            (tmp_path / file).write_text(text)
        assert not await made.reload()
        return made, before

    made, before = asyncio.run(run())
    (logged,) = [record for record in caplog.records if record.name == "thriftgate.reload"]
    assert made.snapshot is before
    assert room.held == []
    assert problem in logged.getMessage()
    assert problem in made.notes()[0]
    assert figure(made, "last_reload_successful") == 0
    assert figure(made, "reloads_total", result="failure") == 1


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def write_latin_1(path: Path) -> None:
    path.write_bytes(b'x = "\xe9"')


@pytest.mark.parametrize("file", ["catalog.toml", "policies.toml"])
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_pipe, "is no regular file"),
        (link_to_device, "is no regular file"),
        (Path.mkdir, "is no regular file"),
        (write_latin_1, "is not UTF-8"),
    ],
)
def test_odd_file_leaves_the_snapshot_in_force_until_a_sound_one_takes_its_place(
    settings, tmp_path, file, make, problem
):
    room, path = SnapshotFollower(), tmp_path / file
    sound = path.read_text()

    async def run() -> tuple[Reloader, str]:
        made = reloader(settings, room.prepare)
        running = asyncio.ensure_future(made.run())
        path.unlink()
        make(path)
        await until(lambda: bool(made.notes()))
        (note,) = made.notes()
        path.rename(tmp_path / "aside")
        path.write_text(sound)
        await until(lambda: not made.notes())
        running.cancel()
        return made, note

    made, note = asyncio.run(run())
    assert f"{path}:1: {problem}" in note
    assert len(room.held) == 1
    assert figure(made, "last_reload_successful") == 1
    assert figure(made, "reloads_total", result="failure") == 1


def test_a_failure_that_nobody_expects_is_noted_and_later_reloads_work(settings, tmp_path, caplog):
    class BrokenFollower(SnapshotFollower):
        is_broken = True

        async def prepare(self, snapshot: Snapshot) -> Callable[[], None]:
            if self.is_broken:
                raise KeyError("odd")
            return await super().prepare(snapshot)

    room = BrokenFollower()

    async def run() -> tuple[str, float | None]:
        made = reloader(settings, room.prepare)
        running = asyncio.ensure_future(made.run())
        made.request()
        await until(lambda: bool(made.notes()))
        (note,), success = made.notes(), figure(made, "last_reload_successful")
        room.is_broken = False
        made.request()
        await until(lambda: not made.notes())
        running.cancel()
        return note, success

    note, success = asyncio.run(run())
    assert "KeyError: 'odd'" in note
    assert "Reloading failed unexpectedly" in caplog.text
    assert success == 0
    assert len(room.held) == 1


def test_overlay_that_fails_is_noted_and_read_again_once_it_works(settings):
    class Overlay:
        is_broken = False

        def revision(self) -> int:
            if self.is_broken:
                raise ValueError("odd")
            return 1

        def add_to(self, snapshot: Snapshot) -> Snapshot:
            return snapshot

    overlay, room = Overlay(), SnapshotFollower()

    async def run() -> str:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        made.follow(room.prepare)
        running = asyncio.ensure_future(made.run())
        overlay.is_broken = True
        await until(lambda: bool(made.notes()))
        (note,) = made.notes()
        overlay.is_broken = False
        await until(lambda: not made.notes())
        running.cancel()
        return note

    assert "ValueError: odd" in asyncio.run(run())
    assert len(room.held) == 1


def test_a_look_that_hangs_holds_up_neither_a_signal_nor_the_end(settings):
    release, hangs = threading.Event(), threading.Event()

    class Overlay:
        is_stuck = False

        def revision(self) -> int:
            if self.is_stuck:
                hangs.set()
                release.wait(60)
            return 1

        def add_to(self, snapshot: Snapshot) -> Snapshot:
            return snapshot

    overlay = Overlay()

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        running = asyncio.ensure_future(made.run())
        overlay.is_stuck = True
        await until(hangs.is_set)
        assert not await made.reload()
        running.cancel()
        return made

    try:
        began = time.monotonic()
        made = asyncio.run(run())
        took = time.monotonic() - began
    finally:
        release.set()
    assert "is their disk away?" in made.notes()[0]
    assert took < 30


def test_reload_waits_for_a_look_at_the_files_that_is_under_way(settings):
    looks, release = threading.Event(), threading.Event()

    class SlowOverlay:
        is_slow = False

        def revision(self) -> int:
            if self.is_slow:
                looks.set()
                release.wait(60)
            return 1

        def add_to(self, snapshot: Snapshot) -> Snapshot:
            return snapshot

    overlay = SlowOverlay()

    async def run() -> bool:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        running = asyncio.ensure_future(made.run())
        overlay.is_slow = True
        await until(looks.is_set)
        overlay.is_slow = False
        adopting = asyncio.ensure_future(made.adopt_overlay())
        await asyncio.sleep(0)
        release.set()
        adopted = await adopting
        running.cancel()
        return adopted

    assert asyncio.run(run())


def test_a_reload_that_takes_long_is_noted_before_the_failure_of_an_earlier_one(settings, tmp_path):
    release, hangs = threading.Event(), threading.Event()

    class SlowOverlay:
        def revision(self) -> int:
            return 1

        def add_to(self, snapshot: Snapshot) -> Snapshot:
            hangs.set()
            release.wait(60)
            return snapshot

    async def run() -> list[list[str]]:
        seconds = [7.0]
        release.set()
        made = Reloader(settings, read_snapshot(settings), lambda: seconds[0], SlowOverlay())
        (tmp_path / "catalog.toml").write_text("[[models]")
        assert not await made.reload()
        (tmp_path / "catalog.toml").write_text(MODEL.format("2"))
        release.clear()
        hangs.clear()
        running = asyncio.ensure_future(made.reload())
        await until(hangs.is_set)
        notes = [list(made.notes())]
        seconds[0] += 12
        notes.append(list(made.notes()))
        release.set()
        assert await running
        return [*notes, list(made.notes())]

    try:
        at_first, later, at_last = asyncio.run(run())
    finally:
        release.set()
    assert "is not TOML" in at_first[0]
    assert later[0] == "A reload has been running for 12 s; what is in force stays meanwhile"
    assert later[1].startswith("Of the reload before it: ")
    assert at_last == []


def test_where_one_room_refuses_no_room_changes(settings):
    willing, unwilling = SnapshotFollower(), SnapshotFollower("Another gateway counts.")

    async def run() -> Reloader:
        made = reloader(settings, willing.prepare, unwilling.prepare)
        assert not await made.reload()
        return made

    assert "Another gateway counts." in asyncio.run(run()).notes()[0]
    assert willing.held == []


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - what it waits for is a file's time, no event
            await asyncio.sleep(0.02)


def test_a_changed_file_is_reloaded_once_it_holds_still_and_a_signal_reloads_at_once(
    settings, tmp_path
):
    room = SnapshotFollower()

    async def run() -> None:
        made = reloader(settings, room.prepare)
        running = asyncio.ensure_future(made.run())
        made.request()
        await until(lambda: len(room.held) == 1)
        (tmp_path / "policies.toml").write_text(BUDGET.format("70"))
        await until(lambda: len(room.held) == 2)
        running.cancel()

    asyncio.run(run())
    assert room.held[1].policies.budgets[0].limit == 70_000_000_000


def test_policies_are_checked_against_the_catalog_that_comes_with_them(settings, tmp_path):
    async def run() -> list[bool]:
        made, done = reloader(settings), []
        ceiling = '[[ceilings]]\nname = "c"\nlimit = "1"\ncheaper = ["mine"]\n'
        (tmp_path / "policies.toml").write_text(ceiling)
        done.append(await made.reload())
        (tmp_path / "catalog.toml").write_text("")
        done.append(await made.reload())
        assert "names mine, which the catalog has not" in made.notes()[0]
        return done

    assert asyncio.run(run()) == [True, False]
