from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
from sqlalchemy import Engine

from proxy.store.sql.database import open_database
from proxy.store.sql.settings.notes import Notes

NOW = 1_790_000_000.0
DAY = 86_400.0
PART, HERE = "ab" * 16, "cd" * 16
LINES = ("decision t3: take the train", "value t4: “8 €”, 猫")

T = TypeVar("T")


@pytest.fixture
def notes(engine: Engine) -> Notes:
    return Notes(engine)


def at_once(url: str, works: list[Callable[[Notes], T]]) -> list[T]:
    """Return what processes get that do these things at the same time."""

    def alone(work: Callable[[Notes], T]) -> T:
        own = open_database(url)
        try:
            return work(Notes(own))
        finally:
            own.dispose()

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(alone, works))


def test_a_compaction_takes_what_was_noted_of_its_part(notes: Notes) -> None:
    notes.keep(PART, LINES, NOW)

    assert notes.claim(PART, HERE, NOW + 1) == LINES


def test_the_first_to_bring_notes_decides(notes: Notes) -> None:
    notes.keep(PART, LINES, NOW)
    notes.keep(PART, ("another",), NOW + 1)

    assert notes.claim(PART, HERE, NOW + 2) == LINES


def test_notes_of_a_compaction_stay_the_same_even_where_there_were_none(notes: Notes) -> None:
    assert notes.claim(PART, HERE, NOW) == ()
    notes.keep(PART, LINES, NOW + 1)

    assert notes.claim(PART, HERE, NOW + 2) == ()
    assert notes.claim(PART, "another compaction", NOW + 3) == LINES


def test_parts_that_were_noted_are_known_also_where_nothing_was_worth_it(notes: Notes) -> None:
    assert not notes.has(PART)
    notes.keep(PART, (), NOW)

    assert notes.has(PART)
    assert notes.claim(PART, HERE, NOW) == ()


def test_processes_that_race_agree(url: str, engine: Engine) -> None:
    def takes(notes: Notes) -> tuple[str, ...]:
        return notes.claim(PART, HERE, NOW)

    def brings(line: str) -> Callable[[Notes], tuple[str, ...]]:
        def work(notes: Notes) -> tuple[str, ...]:
            notes.keep(PART, (line,), NOW)
            return notes.claim(PART, HERE, NOW)

        return work

    claims = at_once(url, [takes, brings("a"), takes, brings("b"), takes, brings("c")])

    assert len(set(claims)) == 1
    assert Notes(engine).claim(PART, HERE, NOW) == claims[0]


def test_rows_nobody_asked_for_are_deleted_and_others_stay(notes: Notes) -> None:
    notes.keep("old", LINES, NOW - 40 * DAY)
    notes.claim("old", "compaction", NOW - 40 * DAY)
    notes.claim("old", "compaction that goes on", NOW - 40 * DAY)
    notes.claim("old", "compaction that goes on", NOW - 2 * DAY)
    notes.keep("new", LINES, NOW)

    assert notes.retain(NOW - 30 * DAY, budget=0) == 0
    assert notes.retain(NOW - 30 * DAY, budget=60) == 2
    assert not notes.has("old")
    assert not notes.has("compaction")
    assert notes.has("new")
    assert notes.claim("old", "compaction that goes on", NOW) == LINES
