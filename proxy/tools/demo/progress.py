"""The demo's progress bar, with calls per second and the ledger's cost so far."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from proxy.tools.demo.result import days
from proxy.tools.demo.session import DemoSession
from proxy.tools.demo.traffic import Tell

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
