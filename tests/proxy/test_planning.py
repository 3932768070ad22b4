"""Planning around a real store: what is shared, what is learned, and that nothing costs a call."""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson
import pytest
from sqlalchemy.exc import OperationalError

from proxy import plannable
from proxy import planning as planning_
from proxy.call import Call
from proxy.planning import Planning
from proxy.prefix.layout import Layout
from proxy.prefix.plan import Arm, Plan
from proxy.prefix.planned import Asked, Draft, Planned, Unplanned
from proxy.prefix.planner import Planner
from proxy.prefix.standing import Mode, Place
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.clock import played
from tests.fakes.desk import LoopTasks, call, route
from tests.proxy.prefix.askings import NOW, RULES, SECRET, WAYS, body, learned, said, talk, tool

PLACE = Place("team_1", "chat", "any")
ROUTE = route("openai", regime="openai-interval")
LARGE = RULES * (planning_._LARGE // len(RULES) + 1)
ABOVE = "Call number {}.\n"
AnyStore = TypeVar("AnyStore", bound=Store)
T = TypeVar("T")


class Clock:
    now = NOW

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, kind: type[AnyStore], mode: Mode = Mode.OBSERVE) -> AnyStore:
    return kind.open(f"sqlite:///{folder}/thriftgate.db", folder / "journal", mode)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(tmp_path, Store)
    yield store
    store.close(5)


@contextmanager
def made(store: Store, planner: Planner | None = None, **fields: Any) -> Iterator[Planning]:
    """Planning on this store; it leaves no conversation alone unless the planner does."""
    given = {"now": lambda: NOW, **fields}
    found = Planning(planner or Planner(SECRET, share=0.0), store, LoopTasks(), **given)
    try:
        yield found
    finally:
        found.close()


def chat(turns: int = 0, **fields: Any) -> Call:
    return call(body(*talk(turns), **fields))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def kept(planning: Planning, asked: Call) -> Planned:
    """The call, once the store has what was decided for it."""
    found = await planning.planned(asked, ROUTE)
    assert isinstance(found, Planned)
    await planning.kept(found)
    assert planning._keeping == {}
    return found


def planned(found: Planned | Unplanned) -> Planned:
    assert isinstance(found, Planned)
    return found


def names(found: Planned | Unplanned) -> list[str]:
    assert isinstance(found, Planned)
    return [each["function"]["name"] for each in orjson.loads(found.body)["tools"]]


def opening(found: Planned | Unplanned) -> str:
    content = orjson.loads(planned(found).body)["messages"][0]["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def lessons_are_learned(planning: Planning) -> None:
    planning._school.submit(int).result(10)


class Away(Store):
    """A database that does not answer."""

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        raise OperationalError("SELECT", {}, OSError("away"))


class Slow(Store):
    """A database that answers too late."""

    async def ask(self, question: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(3_600)


@pytest.mark.parametrize(
    "asked",
    [
        call(body(said("user", "hi"))),
        call(body(*talk(0)), endpoint="embeddings"),
        call(body(*talk(0)), endpoint="completions"),
        call(body(*talk(0)), method="GET"),
    ],
)
def test_what_no_cache_would_keep_is_not_planned(store, asked):
    with made(store) as planning:
        assert run(planning.planned(asked, ROUTE)) == Unplanned()


def test_tags_are_taken_off_however_small_a_prompt_is(store):
    asked = call(body(said("system", "<tg:variable>It is noon.</tg:variable>"), said("user", "?")))
    with made(store) as planning:
        found = planned(run(planning.planned(asked, ROUTE)))

    assert b"<tg:" not in found.body


def test_what_is_huge_goes_as_it_came(store):
    asked = call(body(said("user", "x" * plannable.HUGE)))
    with made(store) as planning:
        assert run(planning.planned(asked, ROUTE)) == Unplanned("the prompt is too large to plan")


def test_a_feature_for_which_planning_is_off_goes_as_it_came(tmp_path):
    store = opened(tmp_path, Store, Mode.OFF)
    with made(store) as planning:
        assert run(planning.planned(chat(), ROUTE)) == Unplanned()
    store.close(5)


def test_a_feature_that_is_suspended_goes_as_it_came_and_says_so(store):
    store.layouts.suspend(PLACE.whole, "it cost more", NOW)
    store.board.refresh()
    with made(store) as planning:
        assert run(planning.planned(chat(), ROUTE)) == Unplanned("planning is suspended")


def test_what_cannot_be_planned_goes_as_it_came_with_the_reason(store):
    asked = call(orjson.dumps({"model": "m", "messages": "x" * 4_096}))
    with made(store) as planning:
        found = run(planning.planned(asked, ROUTE))

    assert isinstance(found, Unplanned)
    assert found.why.startswith("not a chat body")
    assert len(found.why) <= planning_._WORDS


def test_a_planner_that_fails_costs_no_call(store, caplog):
    class Broken(Planner):
        def draft(self, asked: Asked) -> Draft:
            raise ZeroDivisionError

    with made(store, Broken(SECRET)) as planning:
        assert run(planning.planned(chat(), ROUTE)) == Unplanned("planning failed")
        assert not planning._lock.locked()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_planner_that_hangs_is_not_waited_for(store, caplog):
    over = threading.Event()

    class Hangs(Planner):
        def draft(self, asked: Asked) -> Draft:
            over.wait(60)
            return super().draft(asked)

    with made(store, Hangs(SECRET)) as planning:
        found = played(planning.planned(call(body(said("user", LARGE))), ROUTE))
        while_it_hangs = played(planning.planned(chat(), ROUTE))
        over.set()

    assert found == while_it_hangs == Unplanned("planning took too long")
    assert len(caplog.records) == 2


class Watched(Planner):
    """Remembers which thread read a call."""

    def __init__(self) -> None:
        super().__init__(SECRET, share=0.0)
        self.threads: list[str] = []

    def draft(self, asked: Asked) -> Draft:
        self.threads.append(threading.current_thread().name)
        return super().draft(asked)


def test_only_large_prompts_go_to_a_thread(store):
    planner = Watched()

    async def work(planning: Planning) -> None:
        for asked in (chat(), call(body(said("user", LARGE)))):
            assert isinstance(await planning.planned(asked, ROUTE), Planned)

    with made(store, planner) as planning:
        run(work(planning))
    assert planner.threads == [threading.current_thread().name, "planning_0"]


def test_a_prompt_that_comes_while_another_is_planned_waits_in_a_thread(store):
    planner = Watched()

    async def work(planning: Planning) -> Planned | Unplanned:
        async with asyncio.TaskGroup() as group:
            with planning._lock:
                task = group.create_task(planning.planned(chat(), ROUTE))
                await asyncio.sleep(0)
        return task.result()

    with made(store, planner) as planning:
        assert isinstance(run(work(planning)), Planned)
    assert planner.threads == ["planning_0"]


def test_what_was_decided_for_a_conversation_is_kept_before_its_answer_ends(store):
    with made(store) as planning:
        found = run(kept(planning, chat(tools=[tool("a")])))

    assert store.plans.find(found.draft.conversation.hex(), NOW) == found.plan


def test_another_process_goes_on_as_the_first_began(store):
    tools = [tool("b"), tool("a")]
    with made(store, Planner(SECRET, share=1.0)) as first, made(store) as second:
        run(kept(first, chat(tools=tools)))
        found = run(kept(second, chat(1, tools=tools)))

    assert found.plan.arm is Arm.CONTROL
    assert names(found) == ["b", "a"]


def test_a_conversation_nobody_has_heard_of_is_joined(store):
    with made(store) as planning:
        found = run(kept(planning, chat(2, tools=[tool("b"), tool("a")])))

    assert found.plan.joined
    assert names(found) == ["b", "a"]


@pytest.mark.parametrize("kind", [Away, Slow])
def test_a_conversation_the_store_says_nothing_of_is_joined_in_time(tmp_path, kind, caplog):
    store = opened(tmp_path, kind)
    with made(store) as planning:
        found = planned(played(planning.planned(chat(1), ROUTE)))
    store.close(5)

    assert found.plan.joined
    assert "is not known" in caplog.text


def test_the_first_to_keep_a_plan_decides_for_both(store):
    with made(store, Planner(SECRET, share=1.0)) as first, made(store) as second:
        run(kept(first, chat(tools=[tool("b"), tool("a")])))
        begun = run(kept(second, chat(tools=[tool("b"), tool("a")])))
        found = run(kept(second, chat(1, tools=[tool("b"), tool("a")])))

    assert begun.plan.arm is Arm.TREATED
    assert found.plan.arm is Arm.CONTROL
    assert names(found) == ["b", "a"]


def test_of_calls_that_begin_a_conversation_at_once_the_first_decides(store):
    tools = [[tool("b")], [tool("a"), tool("b")]]

    async def work(planning: Planning) -> list[Planned | Unplanned]:
        calls = (
            call(body(said("system", LARGE), said("user", "Well?"), tools=each)) for each in tools
        )
        return await asyncio.gather(*(planning.planned(each, ROUTE) for each in calls))

    with made(store) as planning:
        found = run(work(planning))

    assert sorted(map(names, found), key=len) in ([["b"], ["b", "a"]], [["b"], ["a", "b"]])
    assert len(planned(found[0]).plan.tools) != len(planned(found[1]).plan.tools)


def test_a_tool_another_process_met_first_keeps_its_place(store):
    def tools(*each: str) -> list[Any]:
        return [tool(name) for name in each]

    with made(store) as first, made(store) as second:
        run(kept(first, chat(tools=tools("m"))))
        run(kept(second, chat(1, tools=tools("m", "z"))))
        found = run(kept(first, chat(2, tools=tools("m", "z", "a"))))
        again = run(kept(second, chat(3, tools=tools("m", "z", "a"))))

    assert names(found) == names(again) == ["m", "z", "a"]


def test_a_call_that_was_not_planned_has_nothing_to_wait_for(store):
    with made(store) as planning:
        run(planning.kept(Unplanned()))


def test_an_answer_does_not_wait_long_for_a_store_that_is_slow(tmp_path):
    store = opened(tmp_path, Slow)

    async def work(planning: Planning) -> float:
        loop = asyncio.get_running_loop()
        found = await planning.planned(chat(), ROUTE)
        began = loop.time()
        await planning.kept(found)
        return loop.time() - began

    with made(store) as planning:
        took = played(work(planning))
    store.close(5)

    assert took == pytest.approx(planning_._DEADLINE)


def test_a_plan_that_could_not_be_kept_holds_here(tmp_path, caplog):
    store = opened(tmp_path, Away)
    with made(store) as planning:
        begun = run(kept(planning, chat()))
        assert planning._planner.plan(begun.draft) == begun.plan
    store.close(5)

    assert "for 1 conversations is lost" in caplog.text


def test_an_answer_waits_for_its_own_plan_and_for_no_other(store):
    """A gateway that begins conversations all the time never has nothing to keep."""

    async def work(planning: Planning) -> None:
        found, others = await planning.planned(chat(), ROUTE), count()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(planning.kept(found))
            while not task.done():
                other = call(body(*talk(0, opening=f"I am {next(others)}.")))
                await planning.planned(other, ROUTE)
                await asyncio.sleep(0)
            assert planning._keeping

    with made(store) as planning:
        run(work(planning))


def test_plans_on_their_way_to_the_store_are_bounded(store):
    with made(store) as planning:
        waiting: dict[str, Any] = {str(number): None for number in range(planning_._WAITING)}
        planning._keeping = waiting
        found = planned(run(planning.planned(chat(), ROUTE)))

        assert len(planning._keeping) == planning_._WAITING
        assert planning._planner.plan(found.draft) == found.plan


def test_what_waits_for_the_store_holds_no_words(tmp_path):
    store = opened(tmp_path, Slow)

    async def work(planning: Planning) -> Draft:
        await planning.planned(chat(), ROUTE)
        ((draft, _),) = planning._keeping.values()
        return draft

    with made(store) as planning:
        draft = played(work(planning))
    store.close(5)

    assert (draft.asked.body, draft.prompt.messages) == (b"", ())


@cache
def layout(words: str = ABOVE) -> Layout:
    found = learned(
        WAYS["openai-interval"],
        (body(*talk(0, words.format(n) + RULES, f"I am {n}.")) for n in range(30)),
        feature="chat",
    )
    assert found is not None
    return found


def approved(store: Store, found: Layout, digest: str) -> int:
    proposal = store.layouts.propose(PLACE, digest, msgspec.json.encode(found).decode(), NOW)
    assert proposal is not None
    store.layouts.approve(PLACE, proposal.version, "ann", NOW)
    store.board.refresh()
    return proposal.version


def numbered(turns: int = 0, opening: str = "Well?") -> Call:
    return call(body(*talk(turns, ABOVE.format(turns) + RULES, opening)))


def test_a_layout_holds_for_conversations_that_begin_once_it_holds(store):
    clock = Clock()
    with made(store, now=clock) as planning:
        approved(store, layout(), "d1")
        before = run(kept(planning, numbered()))
        clock.now += 60
        goes_on = run(kept(planning, numbered(1)))
        after = run(kept(planning, numbered(opening="And this?")))

    assert [each.plan.layout for each in (before, goes_on, after)] == [0, 0, 1]
    assert [opening(each).startswith("Call number") for each in (before, goes_on, after)] == [
        True,
        True,
        False,
    ]


def test_a_conversation_keeps_a_layout_that_holds_no_more(store):
    """Also in a process that has never known it."""
    clock = Clock()
    clock.now = NOW + 60
    with made(store, now=clock) as first, made(store, now=clock) as second:
        approved(store, layout(), "d1")
        run(kept(first, numbered()))
        for digest in ("d2", "d3"):
            approved(store, Layout(), digest)
        found = [run(kept(each, numbered(1))) for each in (first, second)]

    assert (PLACE, 1) not in store.board.standings.moves
    for each in found:
        assert each.plan.layout == 1
        assert not opening(each).startswith("Call number")


def test_a_layout_that_nobody_has_any_more_moves_nothing(store):
    with made(store) as planning:
        draft = planning._planner.draft(plannable.asked(numbered()))
        planning._planner.adopt(draft, Plan(layout=9))
        found = run(kept(planning, numbered()))

    assert opening(found).startswith("Call number")


@pytest.mark.parametrize("kind", [Away, Slow])
def test_a_layout_the_store_says_nothing_of_moves_nothing(tmp_path, kind, caplog):
    store = opened(tmp_path, kind)
    with made(store) as planning:
        draft = planning._planner.draft(plannable.asked(numbered()))
        planning._planner.adopt(draft, Plan(layout=9))
        found = played(planning.planned(numbered(), ROUTE))
    store.close(5)

    assert opening(found).startswith("Call number")
    assert "A layout is not known" in caplog.text


def test_a_layout_that_cannot_be_read_moves_nothing(store):
    store.layouts.propose(PLACE, "d", '{"moves":7}', NOW - 60)
    store.layouts.approve(PLACE, 1, "ann", NOW - 60)
    store.board.refresh()
    with made(store) as planning:
        found = run(kept(planning, numbered()))

    assert found.plan.layout == 1
    assert opening(found).startswith("Call number")


def test_layouts_that_were_read_are_bounded(store):
    with made(store) as planning:
        for version in range(planning_._WAITING + 10):
            planning._remember((PLACE, version), "{}")

        assert len(planning._layouts) <= planning_._WAITING + 1


def test_calls_that_begin_and_end_hold_nobody_back(store):
    async def work(planning: Planning) -> None:
        for _ in range(3):
            found = await planning.planned(chat(), ROUTE)
            for each in (found, Unplanned()):
                planning.begun(each)
                planning.ended(each)
            assert planning._fanout._doors == {}

    with made(store) as planning:
        run(work(planning))


def test_an_answer_says_why_the_cache_missed(store):
    with made(store) as planning:
        found = run(kept(planning, chat()))
        miss = planning.settled(found, Usage(input=3_000))

    assert miss is not None
    assert miss.reason == "first_seen"


def test_what_a_very_long_conversation_missed_is_learned_from_in_a_thread(store):
    messages = [said("user", f"{number} {RULES[:40]}") for number in range(planning_._MANY + 1)]
    with made(store) as planning:
        found = planned(run(planning.planned(call(body(*messages)), ROUTE)))

        assert planning.settled(found, Usage(input=20_000)) is None
        lessons_are_learned(planning)
        again = planned(run(planning.planned(call(body(*messages)), ROUTE)))

    assert again.evidence.before is not None


def test_a_feature_whose_planned_prompt_was_refused_is_left_alone_for_a_while(store, caplog):
    clock = Clock()
    with made(store, now=clock) as planning:
        planning.refused(planned(run(planning.planned(chat(), ROUTE))))
        left = run(planning.planned(chat(), ROUTE))
        clock.now += planning_._REST
        again = run(planning.planned(chat(), ROUTE))

    assert left == Unplanned("an upstream refused what was planned")
    assert isinstance(again, Planned)
    assert "took it as it came" in caplog.text


def test_features_that_are_left_alone_are_bounded(store):
    with made(store) as planning:
        found = planned(run(planning.planned(chat(), ROUTE)))
        planning._refused = {Place("t", str(n)): 0.0 for n in range(planning_._WAITING + 1)}
        planning.refused(found)

    assert planning._refused.keys() == {found.place}


def test_a_conversation_that_begins_again_begins_with_the_newest_layout(store):
    clock = Clock()
    with made(store, now=clock) as planning:
        before = run(kept(planning, numbered()))
        version = approved(store, layout(), "newer")
        clock.now += 60
        again = run(kept(planning, numbered()))
        goes_on = run(kept(planning, numbered(1)))

    assert (before.plan.layout, again.plan.layout) == (0, version)
    assert again.plan.anew
    assert goes_on.plan.layout == version
    found = store.plans.find(again.draft.conversation.hex(), NOW)
    assert found is not None
    assert found.layout == version


def test_an_answer_waits_for_no_prompt_that_is_planned(store):
    with made(store) as planning:
        found = run(kept(planning, chat()))
        with planning._lock:
            assert planning.settled(found, Usage(input=3_000)) is None
        assert planning.settled(Unplanned(), Usage(input=3_000)) is None


def test_a_planner_that_fails_costs_no_answer(store, caplog):
    class Broken(Planner):
        def settled(self, *args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError

    with made(store, Broken(SECRET, share=0.0)) as planning:
        found = run(kept(planning, chat()))

        assert planning.settled(found, None) is None
        assert not planning._lock.locked()
    assert "is lost" in caplog.text


def taught(planning: Planning, calls: int = 30) -> None:
    """Answer as many calls, each of which says its number above the rules."""

    async def work() -> None:
        for number in range(calls):
            raw = body(*talk(0, ABOVE.format(number) + RULES, f"I am {number}."))
            found = await kept(planning, call(raw))
            planning.settled(found, Usage(input=3_000))

    run(work())
    lessons_are_learned(planning)


def test_what_calls_show_is_proposed(store):
    with made(store) as planning:
        taught(planning)
    (found,) = store.layouts.proposals(PLACE)

    assert (found.version, found.state.value) == (1, "proposed")
    assert "Detail 1" in found.moves


def test_what_is_shown_again_is_the_same_proposal(store):
    with made(store) as planning:
        taught(planning, 80)

    assert len(store.layouts.proposals(PLACE)) == 1


def test_calls_that_show_nothing_propose_nothing(store):
    with made(store) as planning:
        found = run(kept(planning, chat()))
        for _ in range(30):
            planning.settled(found, None)
        lessons_are_learned(planning)

    assert store.layouts.proposals(PLACE) == []


def test_a_lesson_the_store_does_not_take_is_told_of(store, caplog):
    def propose(*args: object) -> None:
        raise OperationalError("INSERT", {}, OSError("away"))

    store.layouts.propose = propose
    with made(store) as planning:
        taught(planning)

    told = {r.levelno for r in caplog.records if "taught nothing" in r.message}
    assert told == {logging.WARNING}


def test_a_lesson_that_fails_harms_no_other(store, caplog):
    with made(store) as planning:
        found = run(kept(planning, chat()))
        lessons, planning._lessons = planning._lessons, None  # type: ignore[assignment]
        planning.settled(found, None)
        lessons_are_learned(planning)
        planning._lessons = lessons
        planning.settled(found, None)
        lessons_are_learned(planning)

    assert [record.message for record in caplog.records] == ["A call taught nothing"]
    assert len(lessons) == 1


def test_lessons_that_wait_are_bounded(store):
    with made(store) as planning:
        planning._seats = threading.BoundedSemaphore(1)
        found = run(kept(planning, chat()))
        with planning._seats:
            planning.settled(found, None)
        lessons_are_learned(planning)

    assert len(planning._lessons) == 0


def test_features_whose_calls_are_counted_are_bounded(store):
    with made(store) as planning:
        planning._calls.update(Place("t", str(n)) for n in range(planning_._WAITING))
        found = run(kept(planning, chat()))
        planning.settled(found, None)
        lessons_are_learned(planning)

    assert len(planning._calls) <= 1


def test_leaving_drops_lessons_that_wait(store, caplog):
    over = threading.Event()
    with made(store) as planning:
        found = run(kept(planning, chat()))
        running = planning._school.submit(over.wait, 10)
        planning.settled(found, None)
        planning.close()
        over.set()
        assert running.result(10)

    assert len(planning._lessons) == 0
    assert caplog.records == []
