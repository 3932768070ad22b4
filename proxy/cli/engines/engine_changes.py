"""Rolling changes of ``thriftgate engine serve``.

They are made on SIGHUP, when the file changes, and once ``auto`` would take another setting.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from proxy.cli.terminal import Terminal
from proxy.configuration import POLL_S, file_stamps
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.auto_choice import SpeculationRecord, choose_setting
from proxy.engines.state.state_file import ChangeReport, EngineStateFile
from proxy.engines.supervision.replica_plan import ReplicaPlan
from proxy.engines.supervision.supervisor import EngineSupervisor
from proxy.errors import OperatorError
from slo.toml.problems import InvalidFile

#: Seconds between two looks at what was measured.
LOOK_INTERVAL_S: Final = 300.0
#: Seconds that a setting runs before ``auto`` changes it by itself: a change empties caches.
MIN_RUN_S: Final = 3_600.0


class RollingChanges:
    """Brings the replicas in line with the profile as it is now, one change at a time.

    Args:
        files: Files whose change asks for a rolling change of what they change.
    """

    def __init__(
        self,
        replan: Callable[[], ReplicaPlan],
        files: Sequence[Path],
        supervisor: EngineSupervisor,
        state: EngineStateFile,
        terminal: Terminal,
    ) -> None:
        self._replan = replan
        self._files = files
        self._supervisor = supervisor
        self._state = state
        self._terminal = terminal
        self._requested = asyncio.Event()
        self._also_unchanged = False

    def request(self, *, also_unchanged: bool = True) -> None:
        """Replace replicas soon: all, or those alone whose command is another now."""
        self._also_unchanged |= also_unchanged
        self._requested.set()

    async def run(self) -> None:
        """Change the replicas when asked, and when a file has changed, until cancelled."""
        seen = before = file_stamps(self._files)
        while True:
            try:
                async with asyncio.timeout(POLL_S):
                    await self._requested.wait()
            except TimeoutError:
                stamps = await asyncio.to_thread(file_stamps, self._files)
                # A file that is alike at two looks in a row is not being written any more.
                is_settled, before = stamps == before, stamps
                if not is_settled or stamps == seen:
                    continue
            seen = file_stamps(self._files)
            also_unchanged, self._also_unchanged = self._also_unchanged, False
            self._requested.clear()
            await self._change(also_unchanged=also_unchanged)

    async def _change(self, *, also_unchanged: bool) -> None:
        began = self._terminal.now()
        self._record(ChangeReport(since=began, is_running=True))
        before = self._running_replicas()
        try:
            plan = self._replan()
            why = await self._supervisor.change(plan, also_unchanged=also_unchanged)
        except (OperatorError, InvalidFile, OSError) as error:
            why = str(error)
        self._record(ChangeReport(since=began, is_running=False, reason=why))
        done = (
            "done." if self._running_replicas() != before else "no replica's command has changed."
        )
        self._terminal.say(f"Rolling change: {why or done}")

    def _record(self, change: ChangeReport) -> None:
        self._state.change = change
        self._state.write(self._supervisor.reports)

    def _running_replicas(self) -> set[tuple[str, int]]:
        return {(report.name, report.pid) for report in self._supervisor.reports}


async def follow_measurements(
    profile: EngineProfile,
    record: SpeculationRecord,
    changes: RollingChanges,
    now: Callable[[], float],
) -> None:
    """Ask for a rolling change whenever ``auto`` would take another setting, until cancelled."""
    while True:
        await asyncio.sleep(LOOK_INTERVAL_S)
        choice = record.choice
        if choice is None or now() - choice.since < MIN_RUN_S:
            continue
        if choose_setting(profile, record, now()).setting != choice.setting:
            changes.request(also_unchanged=False)
