"""Overlays on the files that are reloaded: taken over whatever became of the files."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from proxy.configuration import Snapshot, read_snapshot
from proxy.errors import OperatorError
from proxy.reloading import Overlays, Reloader
from proxy.settings import Settings

BUDGET = '[[budgets]]\nname = "day"\nscope = "team"\nunit = "usd"\nwindow = "day"\nlimit = "5"\n'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "policies.toml").write_text(BUDGET)
    return Settings(policies=tmp_path / "policies.toml")


class BudgetElsewhere:
    """An overlay with one budget whose limit a test changes."""

    def __init__(self) -> None:
        self.limit = 1

    def revision(self) -> int:
        return self.limit

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        (file,) = snapshot.policies.budgets
        other = msgspec.structs.replace(file, name="other", limit=self.limit)
        policies = msgspec.structs.replace(snapshot.policies, budgets=(file, other))
        return msgspec.structs.replace(snapshot, policies=policies)


def test_a_change_of_the_overlay_is_taken_over_without_a_change_of_a_file(settings):
    overlay = BudgetElsewhere()

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        assert [budget.limit for budget in made.snapshot.policies.budgets][1:] == [1]
        taken_over = asyncio.Event()

        async def prepare(_: Snapshot) -> Callable[[], None]:
            return taken_over.set

        made.follow(prepare)
        running = asyncio.ensure_future(made.run())
        overlay.limit = 2
        async with asyncio.timeout(30):
            await taken_over.wait()
        running.cancel()
        return made

    made = asyncio.run(run())
    assert [budget.limit for budget in made.snapshot.policies.budgets][1:] == [2]
    assert made.file_budgets == {"day"}


def limits(made: Reloader) -> list[int]:
    return [budget.limit for budget in made.snapshot.policies.budgets]


def test_an_overlay_is_adopted_over_the_files_in_force_while_a_file_is_broken(settings, tmp_path):
    overlay, held = BudgetElsewhere(), list[Snapshot]()

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        return lambda: held.append(snapshot)

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        made.follow(prepare)
        (tmp_path / "policies.toml").write_text("[[budgets]")
        assert not await made.reload()
        overlay.limit = 2
        assert await made.adopt_overlay()
        return made

    made = asyncio.run(run())
    assert limits(made)[1:] == [2]
    assert held == [made.snapshot]
    assert "policies.toml:1" in made.notes()[0]


def test_a_change_of_the_overlay_beside_a_broken_file_is_taken_over_by_a_later_look(
    settings, tmp_path
):
    overlay = BudgetElsewhere()

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        running = asyncio.ensure_future(made.run())
        (tmp_path / "policies.toml").write_text("[[budgets]")
        overlay.limit = 2
        async with asyncio.timeout(30):
            while limits(made)[1:] != [2]:  # noqa: ASYNC110 - it waits for a look, no event
                await asyncio.sleep(0.02)
        running.cancel()
        return made

    assert asyncio.run(run()).notes()


def test_an_overlay_that_a_part_refuses_is_noted_and_leaves_all_as_it_was(settings):
    overlay = BudgetElsewhere()

    async def refuse(_: Snapshot) -> Callable[[], None]:
        raise OperatorError("not now")

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        made.follow(refuse)
        overlay.limit = 2
        assert not await made.adopt_overlay()
        return made

    made = asyncio.run(run())
    assert limits(made)[1:] == [1]
    assert "not now" in made.notes()[0]


def test_the_note_on_a_refused_overlay_goes_once_an_overlay_is_adopted(settings, tmp_path):
    overlay = BudgetElsewhere()

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        if snapshot.policies.budgets[-1].limit == 2:
            raise OperatorError("not two")
        return lambda: None

    async def run() -> Reloader:
        made = Reloader(settings, read_snapshot(settings), lambda: 7.0, overlay)
        made.follow(prepare)
        (tmp_path / "policies.toml").write_text("[[budgets]")
        assert not await made.reload()
        overlay.limit = 2
        assert not await made.adopt_overlay()
        assert len(made.notes()) == 2
        overlay.limit = 3
        assert await made.adopt_overlay()
        return made

    (note,) = asyncio.run(run()).notes()
    assert "policies.toml:1" in note


def test_several_overlays_are_one_over_the_other_and_none_adds_nothing(settings):
    first, second = BudgetElsewhere(), BudgetElsewhere()
    overlays = Overlays([first, None])
    snapshot = read_snapshot(settings)

    assert overlays.add_to(snapshot) == first.add_to(snapshot)
    before = Overlays([first, second]).revision()
    second.limit = 3
    assert Overlays([first, second]).revision() != before
