from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert

from proxy.errors import CallerError
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.settings.pins import PIN_CHANGES, PinRow, Pins

NOW = 1_790_000_000.0


@pytest.fixture
def pins(engine):
    return Pins(engine)


def pin(objective: str = "chat-ttft", **fields: object) -> PinRow:
    values = {"level": 1, "until": NOW + 3600.5, "why": "a launch", "made": NOW}
    return PinRow(objective=objective, **{**values, **fields})  # type: ignore[arg-type]


def test_a_pin_is_stored_unchanged(pins):
    pins.set(pin())

    assert pins.current_pins(NOW) == {"chat-ttft": pin()}


def test_no_objective_is_pinned_to_begin_with(pins):
    assert pins.current_pins(NOW) == {}


def test_a_pin_ends_by_itself(pins):
    pins.set(pin(until=NOW + 10))

    assert "chat-ttft" in pins.current_pins(NOW + 9.9)
    assert pins.current_pins(NOW + 10) == {}


def test_a_pin_stands_in_place_of_the_one_before(pins):
    pins.set(pin())
    pins.set(pin(level=0, why="over", made=NOW + 1))

    assert pins.current_pins(NOW + 2) == {"chat-ttft": pin(level=0, why="over", made=NOW + 1)}


def test_of_two_that_hold_by_a_clock_behind_what_was_said_last_counts(pins):
    pins.set(pin(made=NOW + 60))
    pins.set(pin(level=0, made=NOW + 61))

    assert pins.current_pins(NOW)["chat-ttft"].level == 0


def test_a_pin_or_release_is_refused_after_a_change_that_its_author_did_not_see(pins, engine):
    pins.set(pin(who="ann"), "")
    last = AuditLog(engine).last_change("chat-ttft", PIN_CHANGES)
    assert last is not None
    pins.set(pin(level=0, made=NOW + 1, who="bob"), last.id)

    with pytest.raises(CallerError, match=r"by bob \(pin objective chat-ttft, 2026-09-21 "):
        pins.set(pin(level=2, made=NOW + 2), last.id)
    with pytest.raises(CallerError, match="changed after"):
        pins.release("chat-ttft", NOW + 2, "ann", last.id)
    assert pins.current_pins(NOW + 2)["chat-ttft"].level == 0


def test_a_pin_is_taken_back_once(pins):
    pins.set(pin())
    pins.set(pin("errors"))

    assert pins.release("chat-ttft", NOW + 5) is True
    assert pins.release("chat-ttft", NOW + 5) is False
    assert pins.release("nothing", NOW + 5) is False
    assert list(pins.current_pins(NOW + 5)) == ["errors"]


def test_an_ended_pin_is_remembered_with_its_end_and_its_author(pins):
    pins.set(pin(who="ann"))
    pins.set(pin(level=0, made=NOW + 10, who="bob"))
    pins.release("chat-ttft", NOW + 20)
    pins.set(pin("errors", made=NOW + 30))

    assert pins.last_pins(20) == [
        pin("errors", made=NOW + 30),
        pin(level=0, made=NOW + 10, until=NOW + 20, who="bob"),
        pin(until=NOW + 10, who="ann"),
    ]
    assert [last_pin.objective for last_pin in pins.last_pins(1)] == ["errors"]


def test_a_pin_that_ended_long_ago_is_forgotten_with_the_next(pins):
    pins.set(pin("old", until=NOW + 1))
    pins.set(pin("new", made=NOW + 91 * 86_400, until=NOW + 92 * 86_400))

    assert list(pins.current_pins(NOW)) == ["new"]
    assert [last_pin.objective for last_pin in pins.last_pins(20)] == ["new"]


def test_two_who_pin_the_same_at_once_are_both_heard(pins):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda level: pins.set(pin(level=level)), range(32)))

    assert list(pins.current_pins(NOW)) == ["chat-ttft"]


def test_no_more_pins_are_listed_than_there_may_be(pins, engine):
    rows = [
        {"objective": f"o{n}", "level": 0, "until": NOW + 60 + n, "why": "", "who": "", "made": 0}
        for n in range(1_001)
    ]
    with engine.begin() as connection:
        connection.execute(insert(schema.pins), rows)

    assert len(pins.current_pins(NOW)) == 1_000
