import pickle
from collections.abc import Callable

from sqlalchemy import Engine

from proxy.records.feature_mode import PlanningMode
from proxy.store.sql.views.readers import LocalReads, PickledOnce, Readers
from tests.fakes.board import NOW


class Counted:
    """A value that counts how often it is pickled."""

    def __init__(self) -> None:
        self.count = 0

    def __reduce__(self) -> tuple[Callable[[], int], tuple[()]]:
        self.count += 1
        return int, ()


def test_a_question_is_asked_with_its_arguments_of_readers_over_one_engine(engine: Engine) -> None:
    def ask(readers: Readers, team: str, *, most: int) -> tuple[object, ...]:
        mode = readers.layouts.states().mode
        return readers.reports.features(team)[:most], mode, readers.engine is engine

    reads = LocalReads(engine, PlanningMode.AUTO)

    assert reads.read(ask, "no team", most=1) == ([], PlanningMode.AUTO, True)


def test_names_of_teams_are_read_by_their_ids(engine: Engine) -> None:
    readers = Readers(engine)
    made = readers.teams.create("Search", now=NOW)

    assert readers.team_names() == {made.id: "Search"}


def test_a_large_value_is_pickled_once_however_often_it_is_sent() -> None:
    value = Counted()
    sent = PickledOnce(value)
    copies = [pickle.loads(pickle.dumps(sent)) for _ in range(3)]  # noqa: S301 - our own bytes

    assert [copy.value for copy in copies] == [0, 0, 0]
    assert value.count == 1
