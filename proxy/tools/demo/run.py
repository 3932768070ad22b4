"""Runs the demo from its first line to Ctrl-C, in one process and one event loop."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from dashboards.access import HOME_PATH, sign_in_url
from proxy.store.sql.access.users import FIRST_ADMIN
from proxy.tools.demo import messages, plan
from proxy.tools.demo.baseline import CostBaseline, baseline_costs, order_costs
from proxy.tools.demo.result import DemoResult, days, learned_features, of_store
from proxy.tools.demo.session import TEAMS, DemoSession, run_session
from proxy.tools.demo.traffic import DemoCall, Tell, send

#: About how long the plan's calls take their applications, by the demo's clock.
_SPAN = timedelta(hours=1)

_INTERRUPTED = 130
_LINK_LIFETIME_S = 3600.0


def run(
    console: Console,
    *,
    now: datetime,
    port: int,
    stays: bool,
    tell: Callable[[DemoResult], None],
    count: int,
) -> int:
    """The exit status: 0 if every call was answered and kept, 1 if not, 130 if stopped before.

    The arguments are those of ``demo``.
    """
    results: list[DemoResult] = []

    def both(result: DemoResult) -> None:
        results.append(result)
        tell(result)

    async def play() -> None:
        await demo(console, now=now, port=port, stays=stays, tell=both, count=count)

    if not run_until_stopped(play):
        console.print("\nStopped.")
    return int(not results[0].is_sound) if results else _INTERRUPTED


def run_until_stopped(play: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    """Run a coroutine in a loop of its own; False if Ctrl-C or SIGTERM stopped it."""

    async def stoppable() -> None:
        """SIGTERM ends it as Ctrl-C does, with nothing left behind."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101 - a coroutine that runs is in a task
        # Not the loop's own handler: that one would run beside the server's, before calls ended.
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(task.cancel))
        await play()

    before = signal.getsignal(signal.SIGTERM)
    try:
        uvloop.run(stoppable())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return False
    finally:
        signal.signal(signal.SIGTERM, before)
    return True


async def demo(
    console: Console,
    *,
    now: datetime,
    port: int,
    stays: bool,
    tell: Callable[[DemoResult], None],
    count: int,
) -> DemoResult:
    """Runs the demo; returns its result once everything is shut down again.

    Args:
        port: Port that the gateway listens on, or the next free one.

    Raises:
        OSError: If no port is free.
    """
    async with run_session(now=now, start=now - _SPAN, port=port) as staged:
        messages.opening(console, count, staged.base_url)
        ticks = asyncio.get_running_loop().time
        began = ticks()
        result = await _result(console, staged, count)
        messages.outcome(console, result)
        tell(result)
        if stays:
            # From here on its clock is that of whoever looks.
            staged.clock.reach(now + timedelta(seconds=ticks() - began))
            key = staged.keys[TEAMS[0]]
            messages.invitation(console, staged.base_url, key, staged.folder, result)
            messages.dashboard(console, await _dashboard_link(staged), staged.folder)
            await asyncio.wait([staged.served])
    return result


async def _dashboard_link(staged: DemoSession) -> str:
    """A link that signs in to the dashboard once; it holds for an hour from the start on."""
    users, created_at = staged.gateway.store.users, staged.clock()

    def create() -> str:
        return users.create_link(FIRST_ADMIN, now=created_at, lifetime_s=_LINK_LIFETIME_S)

    code = await staged.gateway.store.ask(create)
    return sign_in_url(staged.base_url.removesuffix("/v1"), code, HOME_PATH)


async def _result(console: Console, staged: DemoSession, count: int) -> DemoResult:
    ticks = asyncio.get_running_loop().time
    calls = plan.calls(start=staged.since, count=count)
    began = ticks()
    async with progress(console, staged, count) as tell:
        demo_calls = await send(
            calls, base_url=staged.base_url, keys=staged.keys, clock=staged.clock, tell=tell
        )
    seconds = ticks() - began
    store = staged.gateway.store
    result = await store.ask(
        of_store,
        store,
        demo_calls,
        names=staged.names,
        since=staged.since,
        now=staged.clock(),
        catalog=staged.gateway.catalog,
    )
    # While it replays, the last lessons are learned: proposals are asked for after it.
    with console.status("Replaying the same calls, sent directly and at their own pace"):
        otherwise, orders = await asyncio.to_thread(_baselines, staged, demo_calls)
    learned = await store.ask(learned_features, store, staged.names)
    return replace(result, seconds=seconds, otherwise=otherwise, orders=orders, proposed=learned)


def _baselines(
    staged: DemoSession, demo_calls: list[DemoCall]
) -> tuple[CostBaseline, CostBaseline]:
    """The totals of the calls sent in other ways, and of a feature's prompts in other orders."""
    catalog, now = staged.gateway.catalog, staged.since.timestamp()
    otherwise = baseline_costs(demo_calls, catalog, now)
    return otherwise, order_costs(demo_calls, otherwise, catalog, now)


_EVERY = 0.25
_FLUSH = 5.0


class CallRate(ProgressColumn):
    """Calls per second from the first to now."""

    def render(self, task: Task) -> Text:
        """The figure; nothing before there is one."""
        rate = task.completed / task.elapsed if task.elapsed else 0.0
        return Text(f"{rate:.0f} calls/s" if rate else "")


@asynccontextmanager
async def progress(console: Console, stage: DemoSession, count: int) -> AsyncIterator[Tell]:
    """Something to tell of each call that has ended; the bar stands as long as this is open."""
    columns = (
        TextColumn("  "),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        CallRate(),
        TextColumn("{task.fields[cost]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("calls", total=count, cost="")

        def show(nanos: int) -> None:
            bar.update(task, cost=f"${nanos / 1e9:.2f}")

        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_watch(stage, show))
            yield lambda _sent: bar.advance(task)
            watch.cancel()
        await stage.gateway.store.ask(stage.gateway.store.drain.flush, _FLUSH)
        show(await _cost_so_far(stage))


async def _watch(stage: DemoSession, show: Callable[[int], None]) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        show(await _cost_so_far(stage))


async def _cost_so_far(stage: DemoSession) -> int:
    store = stage.gateway.store
    rows = await store.ask(store.reports.spend, days(stage.since), ())
    return sum(row.cost_nanos or 0 for row in rows)
