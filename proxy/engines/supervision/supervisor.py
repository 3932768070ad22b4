"""Supervision of an engine's replicas: start, restart, rolling change, stop."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.state.replica_report import (
    FINAL_STATES,
    LOST_STATES,
    ProcessState,
    ReplicaReport,
)
from proxy.engines.supervision.engine_log import EngineLog
from proxy.engines.supervision.replica_plan import ReplicaPlan
from proxy.engines.supervision.supervised_replica import (
    SupervisedReplica,
    SupervisionPorts,
    SupervisionSettings,
    replica_name,
)

#: States at which the first start of a new replica is decided.
_DECIDED = FINAL_STATES | {ProcessState.READY, ProcessState.RESTARTING}


class EngineSupervisor:
    """Keeps the replicas of one engine profile running.

    Args:
        commands: A command for each replica, on a port of its own.

    Raises:
        ValueError: If two commands have the same port.
    """

    def __init__(
        self,
        commands: Sequence[LaunchCommand],
        folder: Path,
        ports: SupervisionPorts,
        settings: SupervisionSettings,
        on_change: Callable[[ReplicaReport], object],
    ) -> None:
        self._folder = folder
        self._ports = ports
        self._settings = settings
        self._on_change = on_change
        self._replicas: list[SupervisedReplica] = []
        self._group: asyncio.TaskGroup | None = None
        self._is_stopping = False
        self._changing = asyncio.Lock()
        for command in commands:
            self._add(command)

    @property
    def reports(self) -> list[ReplicaReport]:
        """The state of each replica."""
        return [replica.report for replica in self._replicas]

    @property
    def ready_urls(self) -> list[str]:
        """The base URLs of replicas that take calls."""
        return [report.base_url for report in self.reports if report.state is ProcessState.READY]

    @property
    def is_lost(self) -> bool:
        """True if every replica was given up."""
        return all(report.state in LOST_STATES for report in self.reports)

    async def run(self) -> None:
        """Keep all replicas running; returns once each is stopped or given up."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for replica in self._replicas:
                group.create_task(replica.run())
        self._group = None

    def stop(self) -> None:
        """Drain and end all replicas; returns at once, and ``run`` once they have ended."""
        self._is_stopping = True
        for replica in self._replicas:
            replica.stop()

    def kill(self) -> None:
        """End all replicas without draining."""
        self._is_stopping = True
        for replica in self._replicas:
            replica.kill()

    async def change(self, plan: ReplicaPlan, *, also_unchanged: bool = False) -> str:
        """Bring the replicas in line with a plan, one after the other, the others ready meanwhile.

        What can be started beside the old one is, on a port that is free, and the old one is
        drained once the new one is ready. Where the plan stops first, another replica has to be
        ready. A new replica that does not become ready at its first start is ended, and the old
        one stays or is started again.

        Args:
            also_unchanged: True if replicas whose command is the same are replaced as well.

        Returns:
            The reason that the rest of them stay; "" if all is as planned.
        """
        async with self._changing:
            if self._group is None or self._is_stopping:
                return "they are not supervised any more"
            done = asyncio.Event()
            # It keeps the group open while one replica has ended and the next is not started yet.
            self._group.create_task(done.wait())
            try:
                return await self._change_all(plan, also_unchanged=also_unchanged)
            finally:
                done.set()

    async def _change_all(self, plan: ReplicaPlan, *, also_unchanged: bool) -> str:
        for old in list(self._replicas):
            if why := await self._change_one(old, plan, also_unchanged=also_unchanged):
                return f"replica {old.report.name} stays: {why}"
        present = {replica.command.replica for replica in self._replicas}
        for number in range(plan.count):
            if number not in present and (why := await self._start_beside(plan, number)):
                return f"replica {number} is not added: {why}"
        return ""

    async def _change_one(
        self, old: SupervisedReplica, plan: ReplicaPlan, *, also_unchanged: bool
    ) -> str:
        """Replace or end a replica; the reason that it stays, or ""."""
        number = old.command.replica
        if number >= plan.count:
            await self._end(old)
            return ""
        same_place = plan.build(number, int(old.report.name))
        if same_place == old.command and not also_unchanged:
            return ""
        if plan.stops_first:
            return await self._replace_in_place(old, same_place)
        if why := await self._start_beside(plan, number):
            return why
        await self._end(old)
        return ""

    async def _start_beside(self, plan: ReplicaPlan, number: int) -> str:
        """Start a replica on a free port; the reason that it did not become ready, or ""."""
        used_ports = {int(replica.report.name) for replica in self._replicas}
        for command in plan.free_commands(number, used_ports):
            if not self._ports.port_conflict(command.health_url):
                return await self._start(command)
        return "no port is free for the new one"

    async def _replace_in_place(self, old: SupervisedReplica, command: LaunchCommand) -> str:
        """End a replica and start the new one in its place, or else the old one again."""
        states = [replica.report.state for replica in self._replicas if replica is not old]
        if old.report.state is ProcessState.READY and ProcessState.READY not in states:
            return "no other replica is ready, and this one is stopped before the new one starts"
        await self._end(old)
        if why := await self._start(command):
            again = await self._start(old.command, keep=True)
            return f"{why}{f'; started again, {again}' if again else ''}"
        return ""

    async def _start(self, command: LaunchCommand, *, keep: bool = False) -> str:
        """Start a replica; the reason that it was not ready at its first start, or "".

        Unless it is to be kept, it is then ended.
        """
        if self._group is None or self._is_stopping:
            return "the engine is being stopped"
        fresh = self._add(command)
        running = self._group.create_task(fresh.run())
        if await fresh.wait_for(_DECIDED) is ProcessState.READY:
            return ""
        why = fresh.report.reason or "the engine is being stopped"
        if not keep:
            fresh.stop()
            await asyncio.wait({running})
            self._remove(fresh)
        return why

    async def _end(self, replica: SupervisedReplica) -> None:
        """Withdraw a replica, drain it and end it."""
        replica.stop(withdrawal=self._settings.withdrawal_s)
        await replica.wait_for(FINAL_STATES)
        self._remove(replica)

    def _add(self, command: LaunchCommand) -> SupervisedReplica:
        name = replica_name(command)
        if any(replica.report.name == name for replica in self._replicas):
            raise ValueError(f"port {name} belongs to another replica of this engine")
        log = EngineLog(self._folder / f"{name}.log")
        made = SupervisedReplica(command, log, self._ports, self._settings, self._on_change)
        self._replicas.append(made)
        return made

    def _remove(self, replica: SupervisedReplica) -> None:
        self._replicas.remove(replica)
        self._on_change(replica.report)
