"""The process that reads for pages: its answers, its priority, and its end in every way."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, Concatenate, ParamSpec, TypeVar

import psutil
import pytest
from sqlalchemy import Engine

from compaction.policy import CompactionMode
from dashboards.access import Role, Viewer
from dashboards.report_periods import time_buckets
from dashboards.reports import ALL_CALLS, ReportPeriod
from dashboards.views.cache_health import CacheFloor
from dashboards.views.calls import CallRow
from proxy.pages.store_questions import json_bytes, page_around, read_view
from proxy.records.feature_mode import PlanningMode
from proxy.store.errors import StoreError
from proxy.store.sql.ledger.control_arms import ArmMeasurement
from proxy.store.sql.views.cache_health import CacheQuestion, cache_health_view, compare_prompts
from proxy.store.sql.views.calls import CallSearch, calls_view
from proxy.store.sql.views.costs import CostsQuestion, costs_view
from proxy.store.sql.views.counted_savings import SavingsScope, read_headline
from proxy.store.sql.views.events import events_view
from proxy.store.sql.views.features import FeaturesQuestion, features_view
from proxy.store.sql.views.latency import LatencyQuestion, latency_view
from proxy.store.sql.views.reader_process import ReaderProcess, read_apart
from proxy.store.sql.views.readers import LocalReads, PickledOnce, Readers
from proxy.store.sql.views.savings import SavingsQuestion, savings_view
from tests.fakes.chaos import two_model_catalog
from tests.fakes.ledger import book, garbage_threshold, sleep_long
from tests.fakes.receipts import a_receipt

P = ParamSpec("P")
T = TypeVar("T")

DAY = 1_790_000_000 // 86_400 * 86_400
PERIOD = ReportPeriod(first=date(2026, 9, 20), end=date(2026, 9, 22), zone="UTC")
DAYS = time_buckets(PERIOD, "day")
ONE_CALL = CallSearch(since=0.0, until=2e9, limit=1)
ADMIN = Viewer(name="root", role=Role.ADMIN)
SCOPE = SavingsScope(
    period=PERIOD,
    catalog=PickledOnce(two_model_catalog()),
    measurement=PickledOnce(ArmMeasurement(at=DAY, took=1.0, comparisons=())),
)
#: A question of each kind that pages ask.
QUESTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (
        costs_view,
        (
            CostsQuestion(
                by="model",
                top=3,
                period=PERIOD,
                buckets=DAYS,
                only=ALL_CALLS,
                providers={},
                today=PERIOD.first,
            ),
        ),
    ),
    (
        savings_view,
        (SavingsQuestion(viewer=ADMIN, scope=SCOPE, next=3, now=DAY),),
    ),
    (read_headline, (SCOPE,)),
    (
        features_view,
        (FeaturesQuestion(teams=frozenset({"team_1"}), compaction=CompactionMode.OFF),),
    ),
    (
        cache_health_view,
        (
            CacheQuestion(
                by="regime",
                top=3,
                period=PERIOD,
                buckets=DAYS,
                only=ALL_CALLS,
                providers={},
                regimes={"lab/model-0": "prefix"},
                floors=[CacheFloor(objective="warm", team="*", feature="*", floor=0.5)],
                max_loss_nanos=7,
            ),
        ),
    ),
    (compare_prompts, ("nobody",)),
    *(
        (
            latency_view,
            (
                LatencyQuestion(
                    metric="ttft", by="model", top=5, period=PERIOD, unit=unit, only=ALL_CALLS
                ),
            ),
        )
        for unit in ("hour", "day")
    ),
    (events_view, (ADMIN, 0.0, 2e9)),
    (read_view, (calls_view, ONE_CALL, json_bytes)),
    (
        read_view,
        (
            calls_view,
            ONE_CALL,
            page_around(
                "calls.html",
                viewer=ADMIN,
                now=DAY,
                section="calls",
                params={},
                first=PERIOD.first,
                last=PERIOD.first,
                tz="UTC",
                outcomes=(),
                can_follow=True,
                windows=(),
                sort="time",
                file="/f",
            ),
        ),
    ),
]


class HereReads(LocalReads):
    """Reads in this process, counted."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.count = 0

    def read(
        self, question: Callable[Concatenate[Readers, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self.count += 1
        return super().read(question, *args, **kwargs)


@pytest.fixture
def here(engine: Engine) -> HereReads:
    book(engine, [a_receipt(number) for number in range(40)], 0.6)
    return HereReads(engine)


@pytest.fixture
def process(url: str, here: HereReads) -> Iterator[ReaderProcess]:
    process = ReaderProcess(url, here, start_timeout_s=60.0)
    yield process
    process.close()


def ask(process: ReaderProcess) -> Sequence[CallRow]:
    """Ask a short question, whose answer is one call."""
    return process.read(calls_view, ONE_CALL).calls


def pid_of(process: ReaderProcess) -> int:
    assert process.pid is not None
    return process.pid


def test_answers_are_those_of_this_process_at_the_lowest_priority(
    process: ReaderProcess, here: HereReads
) -> None:
    answers = [process.read(question, *args) for question, args in QUESTIONS]

    assert here.count == 0
    assert psutil.Process(process.pid).nice() == 19
    assert process.read(garbage_threshold) == 50_000
    assert answers == [here.read(question, *args) for question, args in QUESTIONS]


def test_no_process_runs_before_the_first_question(process: ReaderProcess, here: HereReads) -> None:
    assert process.pid is None
    ask(process)
    assert (process.pid is None, here.count) == (False, 0)


def test_one_that_is_closed_before_its_first_question_starts_none(
    process: ReaderProcess, here: HereReads
) -> None:
    process.close()

    assert (len(ask(process)), here.count, process.pid) == (1, 1, None)


def test_a_question_that_comes_while_the_process_starts_is_answered_here(
    url: str, here: HereReads
) -> None:
    process = ReaderProcess(url, here, start_timeout_s=0.0)
    process.start()
    os.kill(pid_of(process), signal.SIGSTOP)
    answers = [ask(process) for _ in range(10)]
    hung = pid_of(process)
    answers.append(ask(process))

    assert (len(answers), here.count) == (11, 11)
    assert process.pid not in {None, hung}
    process.close()


def test_a_killed_process_is_replaced_and_its_question_answered_here(
    process: ReaderProcess, here: HereReads
) -> None:
    first = ask(process)
    killed = pid_of(process)
    os.kill(killed, signal.SIGKILL)

    assert (ask(process), here.count) == (first, 1)
    assert process.pid not in {None, killed}
    assert (ask(process), here.count) == (first, 1)


def test_a_process_that_hangs_holds_no_other_question_up_and_is_replaced(
    url: str, here: HereReads
) -> None:
    process = ReaderProcess(url, here, timeout_s=6.0, turn_timeout_s=0.0, start_timeout_s=60.0)
    ask(process)
    with ThreadPoolExecutor() as threads:
        hung = pid_of(process)
        os.kill(hung, signal.SIGSTOP)
        waiting = threads.submit(ask, process)
        while not waiting.running():
            time.sleep(0.01)
        time.sleep(0.1)
        answer = ask(process)

        assert (here.count, waiting.done()) == (1, False)
        with pytest.raises(TimeoutError):
            waiting.result(30)
    assert process.pid not in {None, hung}
    assert not psutil.pid_exists(hung)
    assert ask(process) == answer
    process.close()


def test_a_closed_process_is_gone_and_not_replaced(process: ReaderProcess, here: HereReads) -> None:
    ask(process)
    pid = pid_of(process)
    process.close()

    assert not psutil.pid_exists(pid)
    assert (len(ask(process)), here.count, process.pid) == (1, 1, None)


def test_a_database_that_is_away_is_told_by_the_database_s_error(here: HereReads) -> None:
    process = ReaderProcess("postgresql://nobody@127.0.0.1:1/none", here, start_timeout_s=60.0)

    with pytest.raises(StoreError, match="port 1"):
        ask(process)
    process.close()


def test_reader_process_ends_with_the_process_that_started_it(url: str) -> None:
    script = (
        "import sys, time\n"
        "from proxy.store.sql.views.reader_process import ReaderProcess\n"
        f"process = ReaderProcess({url!r}, None)\n"
        "process.start()\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:  # noqa: S603 - our own script
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
    child.wait(30)
    assert not child.is_running()


def child_processes() -> list[psutil.Process]:
    """Processes for a question that this one has started."""
    return [
        child
        for child in psutil.Process().children()
        if child.cmdline()[1:] == ["-m", "proxy.store.sql.views.reader_process"]
    ]


async def first_child() -> psutil.Process:
    """The first of them, once there is one."""
    while True:
        if processes := child_processes():
            return processes[0]
        await asyncio.sleep(0.01)


def test_a_question_apart_is_answered_by_a_process_that_is_gone_then(
    url: str, here: HereReads, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = asyncio.run(read_apart((url, PlanningMode.AUTO), 60.0, calls_view, ONE_CALL))

    assert capfd.readouterr() == ("", "")
    assert answer == here.read(calls_view, ONE_CALL)
    assert child_processes() == []


def test_a_question_apart_that_takes_too_long_or_is_cancelled_leaves_no_process(url: str) -> None:
    async def ask(seconds: float) -> None:
        await read_apart((url, PlanningMode.AUTO), seconds, sleep_long, 600.0)

    async def cancel() -> None:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ask(600.0))
            await first_child()
            asking.cancel()

    with pytest.raises(TimeoutError):
        asyncio.run(ask(0.05))
    assert child_processes() == []
    asyncio.run(cancel())
    assert child_processes() == []


def test_a_question_apart_says_what_the_database_did_and_that_its_process_was_killed(
    url: str,
) -> None:
    async def kill() -> None:
        (await first_child()).kill()

    async def ask() -> None:
        answering = read_apart((url, PlanningMode.AUTO), 600.0, sleep_long, 600.0)
        await asyncio.gather(answering, kill())

    with pytest.raises(OSError, match="has ended"):
        asyncio.run(ask())
    away = "postgresql://nobody@127.0.0.1:1/none", PlanningMode.AUTO
    with pytest.raises(StoreError, match="port 1"):
        asyncio.run(read_apart(away, 60.0, calls_view, ONE_CALL))


def test_a_process_apart_ends_with_the_one_that_asked(url: str) -> None:
    script = (
        "import asyncio\n"
        "from proxy.records.feature_mode import PlanningMode\n"
        "from proxy.store.sql.views.reader_process import read_apart\n"
        "from tests.fakes.ledger import sleep_long\n"
        f"asyncio.run(read_apart(({url!r}, PlanningMode.AUTO), 600.0, sleep_long, 600.0))\n"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as parent:  # noqa: S603 - our own script
        while not (children := psutil.Process(parent.pid).children()):
            time.sleep(0.01)
        parent.kill()
        parent.wait()
    children[0].wait(60)
    assert not children[0].is_running()
