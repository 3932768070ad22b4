"""Supervision of an engine's replicas: start, restart, rolling change, stop."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from proxy.engines.engine_log import EngineLog
from proxy.engines.launch_command import LaunchCommand
from proxy.engines.supervised_replica import (
    FINAL_STATES,
    LOST_STATES,
    ProcessState,
    ReplicaReport,
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
        folder: Folder of their logs.
        on_change: Called with the report of a replica after each change of its state.

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
        return [each.report for each in self._replicas]

    @property
    def ready_urls(self) -> list[str]:
        """The base URLs of replicas that take calls."""
        return [each.base_url for each in self.reports if each.state is ProcessState.READY]

    @property
    def is_lost(self) -> bool:
        """True if every replica was given up."""
        return all(each.state in LOST_STATES for each in self.reports)

    async def run(self) -> None:
        """Keep all replicas running; returns once each is stopped or given up."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for each in self._replicas:
                group.create_task(each.run())
        self._group = None

    def stop(self) -> None:
        """Drain and end all replicas; returns at once, and ``run`` once they have ended."""
        self._is_stopping = True
        for each in self._replicas:
            each.stop()

    def kill(self) -> None:
        """End all replicas without draining."""
        self._is_stopping = True
        for each in self._replicas:
            each.kill()

    async def replace(self, name: str, command: LaunchCommand) -> str:
        """Start a new replica, and once it is ready drain and end the old one.

        Both run for a while, so the machine needs room for both. If the new one does not become
        ready at its first start it is ended, and the old one stays.

        Args:
            name: The old replica.
            command: Starts the new one, on a port that no replica has.

        Returns:
            The reason that the old one stays; "" if it was replaced.
        """
        async with self._changing:
            old = next((each for each in self._replicas if each.report.name == name), None)
            if old is None or self._group is None or self._is_stopping:
                return "it is not supervised any more"
            try:
                fresh = self._add(command)
            except ValueError as error:
                return str(error)
            running = self._group.create_task(fresh.run())
            if await fresh.wait_for(_DECIDED) is not ProcessState.READY:
                why = fresh.report.reason or "the engine is being stopped"
                fresh.stop()
                await asyncio.wait({running})
                self._remove(fresh)
                return why
            old.stop(withdrawal=self._settings.withdrawal_s)
            await old.wait_for(FINAL_STATES)
            self._remove(old)
            return ""

    async def replace_all(self, commands: Sequence[LaunchCommand]) -> str:
        """Replace each replica by one of these, one after the other.

        Returns:
            The reason that the rest of them stay; "" if all were replaced.
        """
        names = [each.name for each in self.reports]
        for name, command in zip(names, commands, strict=False):
            if why := await self.replace(name, command):
                return f"replica {name} stays: {why}"
        return ""

    def _add(self, command: LaunchCommand) -> SupervisedReplica:
        name = replica_name(command)
        if any(each.report.name == name for each in self._replicas):
            raise ValueError(f"port {name} belongs to another replica of this engine")
        log = EngineLog(self._folder / f"{name}.log")
        made = SupervisedReplica(command, log, self._ports, self._settings, self._on_change)
        self._replicas.append(made)
        return made

    def _remove(self, replica: SupervisedReplica) -> None:
        self._replicas.remove(replica)
        self._on_change(replica.report)
