"""What a running gateway tells its pages, and that telling it harms nothing."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy.exc import OperationalError

from dashboards.board import Board, Pin
from proxy.board import LiveBoard
from proxy.receipt import Outcome
from proxy.steering.wheel import Wheel
from proxy.store.inserts import inserter
from proxy.store.pins import PinRow
from proxy.store.reserving import Private, Reserving, StoreLost
from proxy.store.store import Store
from slo.alert import Severity
from slo.budget import Budget, Unit, counter
from slo.controller.standing import Standing, State
from slo.objective import Enforce, Metric, Objective
from slo.reservations import Claim, Level
from slo.usage import Usage
from tests.fakes.alerts import an_alert
from tests.fakes.limited import NOW, budget
from tests.fakes.receipts import a_receipt
from tests.fakes.replicas_steered import objective, tracks
from tests.fakes.turmoil import town

T = TypeVar("T")
LIMIT = 5_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(f"sqlite:///{tmp_path}/thriftgate.db", tmp_path / "journal")
    yield made
    made.close(5)


def wheel(*objectives: Objective, **standings: Standing) -> Wheel:
    made = Wheel(tracks(*objectives), town())
    made.standings = dict(standings)
    return made


def asked(
    store: Store,
    question: Callable[[LiveBoard], Awaitable[T]],
    *budgets: Budget,
    **parts: Any,
) -> T:
    """What a board says."""

    async def run() -> T:
        given: dict[str, Any] = {"wheel": None, "counters": None, "now": lambda: NOW}
        board = LiveBoard(store, budgets, **(given | parts))
        return await question(board)

    return asyncio.run(run())


def keep(store: Store, *receipts: Any) -> None:
    inserter(store._engine)(list(receipts))


def test_a_live_board_answers_all_that_pages_ask(store: Store) -> None:
    board: Board = LiveBoard(store, (), wheel=None, counters=None, now=lambda: NOW)

    assert isinstance(board, LiveBoard)


def test_where_nothing_is_promised_nothing_is_told(store: Store) -> None:
    async def everything(board: LiveBoard) -> list[Sequence[Any] | None]:
        parts = (board.promises, board.stays, board.moved, board.counters, board.notices)
        return [await each() for each in parts]

    assert asked(store, everything) == [[], [], [], [], []]


def test_an_objective_stands_where_the_wheel_has_it(store: Store) -> None:
    standing = Standing(state=State.DEGRADED, level=2, since=NOW - 9, reason="31 of 60 were slow")
    moving = wheel(objective(feature="chat", name="chat"), chat=standing)
    (found,) = asked(store, LiveBoard.promises, wheel=moving) or ()

    assert (found.name, found.feature, found.what) == ("chat", "chat", "p95 of ttft within 500ms")
    assert (found.enforce, found.acts, found.ladder) == ("degrade", True, ("elsewhere", "small"))
    assert (found.state, found.level, found.since) == ("degraded", 2, NOW - 9)
    assert (found.why, found.pin) == ("31 of 60 were slow", None)


def test_an_objective_that_nothing_was_said_of_is_healthy(store: Store) -> None:
    (found,) = asked(store, LiveBoard.promises, wheel=wheel(objective(enforce=Enforce.ALERT))) or ()

    assert found.knows_pin
    assert (found.state, found.level, found.since, found.why) == ("healthy", 0, None, "")
    assert found.acts is False
    assert (found.burn, found.missed, found.counted) == (None, 0, 0)


def test_burn_is_of_the_last_ten_minutes_on_all_rungs(store: Store) -> None:
    moving = wheel(objective(name="chat"), objective(name="cache", metric=Metric.CACHE, under=None))
    for name in ("chat", "cache"):
        arm = moving.tracks[name].arm
        moving.tally.add(arm(0), 60, 20, NOW - 500)
        moving.tally.add(arm(1), 20, 0, NOW)
        moving.tally.add(arm(1), 1000, 1000, NOW - 700)
    chat, cache = asked(store, LiveBoard.promises, wheel=moving) or ()

    assert chat.burn == pytest.approx(4.0)
    assert (chat.missed, chat.counted) == (cache.missed, cache.counted) == (20, 100)
    assert cache.burn is None


def test_a_pin_says_who_set_it(store: Store) -> None:
    row = PinRow(objective="chat", level=1, until=NOW + 60, why="a test", made=NOW - 5, who="ann")
    store.pins.set(row)
    pinned = Standing(state=State.PINNED, level=1, since=NOW, reason="Pinned to level 1: a test")
    (found,) = (
        asked(store, LiveBoard.promises, wheel=wheel(objective(name="chat"), chat=pinned)) or ()
    )

    assert found.pin == Pin(who="ann", why="a test", until=NOW + 60)
    assert (found.state, found.why) == ("pinned", "")


def test_what_was_moved_is_told(store: Store) -> None:
    keep(store, a_receipt(1, moved="chat-ttft: level 1"))
    move = an_alert(kind="move", title="chat-ttft is degraded, on level 1: small")
    store.outbox.put([move], {}, NOW)

    (call,) = asked(store, LiveBoard.moved) or ()
    (stay,) = asked(store, LiveBoard.stays) or ()
    assert call.why == "chat-ttft: level 1"
    assert (stay.objective, stay.rung) == ("chat-ttft", "small")


def test_open_alerts_are_told_with_what_is_done_and_what_to_do(store: Store) -> None:
    store.outbox.put([an_alert()], {}, NOW)
    (found,) = asked(store, LiveBoard.notices) or ()

    assert (found.severity, found.began) == (Severity.PAGE, an_alert().began)
    assert (found.title, found.facts) == (an_alert().title, an_alert().facts)
    assert (found.done, found.mend) == (an_alert().action, "Pin it")


def spent_by(store: Store, *names: str) -> None:
    for number, name in enumerate(names):
        team = store.teams.create(name, now=NOW)
        keep(store, a_receipt(number, team=team.id, cost_nanos=10**9 * (number + 1)))


def test_without_counters_the_ledger_says_what_was_spent(store: Store) -> None:
    spent_by(store, "acme")
    (found,) = asked(store, LiveBoard.counters, budget(limit=LIMIT)) or ()

    assert (found.budget, found.scope, found.whose) == ("b", "team", "acme")
    assert (found.window, found.unit, found.is_hard) == ("2026-09-21", Unit.USD, True)
    assert (found.spent, found.held, found.limit) == (10**9, None, LIMIT)


def test_of_many_counters_those_with_most_spent_are_told(store: Store) -> None:
    spent_by(store, *(f"team {n}" for n in range(15)))
    found = asked(store, LiveBoard.counters, budget(limit=LIMIT), budget(name="other")) or ()

    assert [row.whose for row in found[:10]] == [f"team {n}" for n in range(14, 4, -1)]
    assert [row.budget for row in found] == ["b"] * 10 + ["other"] * 10


def test_counters_say_what_is_held(store: Store) -> None:
    spent_by(store, "acme")
    name = counter(budget(), "acme", NOW)

    async def held(board: LiveBoard) -> Any:
        await mine.reserve("r", [Claim(name, 7, LIMIT, hard=True, ends=NOW + 60)], NOW, NOW + 60)
        return await board.counters()

    mine = Private()
    (found,) = asked(store, held, budget(), counters=mine)
    assert (found.spent, found.held) == (0, 7)


class Away(Private):
    """Counters that nobody can ask, or that take their time over it."""

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__()
        self._seconds = seconds

    async def levels(self, counters: Sequence[str], now: float) -> list[Level]:
        if self._seconds is None:
            raise StoreLost("they are away")
        await asyncio.sleep(self._seconds)
        raise AssertionError


@pytest.mark.parametrize("away", [Away(), Away(30.0)])
def test_counters_that_are_away_leave_the_ledgers_word(store: Store, away: Reserving) -> None:
    spent_by(store, "acme")
    (found,) = asked(store, LiveBoard.counters, budget(), counters=away, patience=0.3) or ()

    assert (found.spent, found.held) == (10**9, None)


def test_a_call_is_told_with_all_that_its_receipts_say_but_its_prompt(store: Store) -> None:
    team = store.teams.create("acme", now=NOW)
    failed = a_receipt(
        1, team=team.id, final=False, outcome=Outcome.FAILED, status=503, error="busy", usage=None
    )
    answered = a_receipt(
        1,
        team=team.id,
        attempt=1,
        moved="fallback: busy",
        usage=Usage(input=1200, output=7),
        cost_nanos=1_500,
        compaction_nanos=-2_500,
        notes=("dropped logit_bias", "and more"),
        prompt="the secret plan",
    )
    keep(store, failed, answered)
    found = asked(store, lambda board: board.call(failed.call_id))

    assert found is not None
    assert (found.call_id, found.team) == (failed.call_id, "acme")
    assert found.cost_nanos == (failed.cost_nanos or 0) + 1_500
    first, last = map(dict, found.attempts)
    assert (first["final"], first["outcome"], first["error"]) == ("no", "failed", "busy")
    assert "usage.input" not in first
    assert (last["final"], last["moved"], last["status"]) == ("yes", "fallback: busy", "200")
    assert (last["usage.input"], last["usage.output"]) == ("1,200", "7")
    assert "usage.cache_read" not in last
    assert (last["cost_usd"], last["compaction_usd"]) == ("$0.0000015", "-$0.0000025")
    assert last["started"] == "2026-09-21 14:13:21.000000 UTC"
    assert (last["ttft"], last["notes"]) == ("0.250000 s", "dropped logit_bias; and more")
    assert "secret plan" not in str(found)


def test_a_call_of_a_team_that_is_gone_is_told_by_its_id(store: Store) -> None:
    keep(store, a_receipt(1))
    found = asked(store, lambda board: board.call(a_receipt(1).call_id))

    assert found is not None
    assert found.team == "team_1"


def test_a_call_that_nobody_made_is_none(store: Store) -> None:
    assert asked(store, lambda board: board.call(a_receipt(1).call_id)) is None


def broken(*_: Any, **__: Any) -> Any:
    raise OperationalError("SELECT", {}, Exception("the database is away"))


def test_a_database_that_is_away_is_not_available_and_no_failure(store: Store, monkeypatch) -> None:
    for part in ("moved.calls", "moved.stays", "outbox.open", "pins.held", "spendings.of"):
        monkeypatch.setattr(f"proxy.store.{_PARTS[part]}", broken)

    async def everything(board: LiveBoard) -> list[Any]:
        return [
            await board.moved(),
            await board.stays(),
            await board.notices(),
            await board.counters(),
        ]

    assert asked(store, everything, budget()) == [None] * 4
    (promise,) = asked(store, LiveBoard.promises, wheel=wheel(objective())) or ()
    assert (promise.pin, promise.knows_pin) == (None, False)


_PARTS = {
    "moved.calls": "moved.LastMoved.calls",
    "moved.stays": "moved.LastMoved.stays",
    "outbox.open": "outbox.Outbox.open",
    "pins.held": "pins.Pins.held",
    "spendings.of": "spendings.Spendings.of",
}


class Slow:
    """Questions that go on until they are let, and how many were asked of each kind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
        self.asked_for: list[str] = []
        self.goes_on = threading.Event()
        for part in parts:
            monkeypatch.setattr(f"proxy.store.{_PARTS[part]}", self._slow(part))

    def _slow(self, part: str) -> Callable[..., list[Any]]:
        def slow(*_: Any) -> list[Any]:
            self.asked_for.append(part)
            assert self.goes_on.wait(10)
            return []

        return slow


async def page(board: LiveBoard) -> list[bool]:
    """Which parts are known, all asked for at once."""
    parts = (board.promises, board.stays, board.moved, board.counters, board.notices)
    return [found is not None for found in await asyncio.gather(*(each() for each in parts))]


def test_a_question_that_takes_too_long_is_given_up_and_keeps_one_thread_alone(
    store: Store, monkeypatch
) -> None:
    slow = Slow(monkeypatch, "moved.calls")

    async def run(board: LiveBoard) -> None:
        assert await asyncio.gather(*(board.moved() for _ in range(8))) == [None] * 8
        assert slow.asked_for == ["moved.calls"]
        assert await board.stays() == []
        assert await board.call(a_receipt(1).call_id) is None
        assert await page(board) == [True, True, False, True, True]
        assert slow.asked_for == ["moved.calls"]
        slow.goes_on.set()
        assert await board.moved() == []

    asked(store, run, budget(), wheel=wheel(objective()), patience=0.3)


def test_pages_never_keep_more_than_two_threads_of_the_store(store: Store, monkeypatch) -> None:
    slow = Slow(monkeypatch, "moved.calls", "moved.stays", "outbox.open")

    async def run(board: LiveBoard) -> None:
        began = time.monotonic()
        lookers = [page(board) for _ in range(5)]
        found = await asyncio.gather(*lookers)
        assert time.monotonic() - began < 2.0  # one patience, and no sum of them
        assert all(not each[1] and not each[2] and not each[4] for each in found)
        assert len(slow.asked_for) == 2
        with pytest.raises(TimeoutError):
            await board.call(a_receipt(1).call_id)
        assert await store.ask(lambda: "calls go on") == "calls go on"
        slow.goes_on.set()
        assert await page(board) == [True] * 5

    asked(store, run, wheel=wheel(objective()), patience=0.5)


def test_what_waits_for_a_thread_of_the_store_and_is_given_up_is_never_asked(
    store: Store, monkeypatch
) -> None:
    goes_on = threading.Event()

    async def run(board: LiveBoard) -> None:
        for _ in range(4):
            store._threads.submit(goes_on.wait, 10)
        assert await page(board) == [True, False, False, True, False]
        goes_on.set()
        assert await page(board) == [True] * 5

    asked(store, run, wheel=wheel(objective()), patience=0.3)


def test_counters_are_asked_also_where_the_ledger_is_away(store: Store, monkeypatch) -> None:
    monkeypatch.setattr(f"proxy.store.{_PARTS['spendings.of']}", broken)
    everybodys, all_together = budget(name="each"), budget(name="all", scope="organization")
    found = asked(
        store, LiveBoard.counters, everybodys, all_together, counters=Private(), patience=0.3
    )

    assert [(row.budget, row.whose, row.spent, row.held) for row in found or ()] == [
        ("each", "*", None, None),
        ("all", "*", 0, 0),
    ]


class Counting(Private):
    """Counters that remember how many were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def levels(self, counters: Sequence[str], now: float) -> list[Level]:
        self.asked.append(len(counters))
        return await super().levels(counters, now)


def test_of_many_counters_few_are_asked_and_others_have_their_turn_between(store: Store) -> None:
    spent_by(store, *(f"team {n}" for n in range(30)))
    counting, turns = Counting(), [0]

    async def turning() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def run(board: LiveBoard) -> list[str]:
        rows = await board._ask("budgets", lambda: board._known(NOW))
        beside = asyncio.ensure_future(turning())
        await asyncio.sleep(0)
        turns[0] = 0
        said = await board._said(rows or [], NOW)
        beside.cancel()
        return [row.whose for row in said[0]]

    names = asked(store, run, *(budget(name=f"b{n}") for n in range(5)), counters=counting)
    assert names == [f"team {n}" for n in range(29, 9, -1)]
    assert counting.asked == [20] * 5
    assert turns[0] >= 5
