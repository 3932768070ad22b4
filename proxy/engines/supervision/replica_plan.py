"""The commands that start a profile's replicas, also in a rolling change, which changes ports."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import setting_name
from proxy.engines.speculation.auto_choice import measured_model

_MAX_PORT: Final = 65_535
#: Ports beyond the replicas' own that are tried for a new one.
_SPARE_PORTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPlan:
    """The replicas that are to run.

    Attributes:
        count: Replicas, numbered from 0.
        first_port: Port of the first one at the start; each further one takes the next.
        build: The command of a replica; arguments are its number and its port.
        stops_first: True if a rolling change stops a replica before it starts the new one.
        reserved_ports: Ports of other profiles, which are never taken.
    """

    count: int
    first_port: int
    build: Callable[[int, int], LaunchCommand]
    stops_first: bool = False
    reserved_ports: frozenset[int] = frozenset()

    def commands(self) -> list[LaunchCommand]:
        """The commands with which the replicas are started at first."""
        return [self.build(number, self.first_port + number) for number in range(self.count)]

    def free_commands(self, number: int, used_ports: Collection[int]) -> Iterator[LaunchCommand]:
        """Commands of a replica on ports that are not known to be taken, the nearest first."""
        last = min(self.first_port + self.count + _SPARE_PORTS, _MAX_PORT + 1)
        for port in range(self.first_port, last):
            if port not in used_ports and port not in self.reserved_ports:
                yield self.build(number, port)


def plan_replicas(
    profile: EngineProfile, python: str, others: Iterable[EngineProfile] = ()
) -> ReplicaPlan:
    """The plan of a profile that can be started.

    Args:
        profile: Its engine can be launched, and it is not attached.
        python: Interpreter of the gateway, for engines that are Python modules of its own.
        others: Profiles whose ports are left alone; the profile itself may be among them.
    """
    adapter, measured = ADAPTERS[profile.engine], measured_model(profile)

    def replica_command(number: int, port: int) -> LaunchCommand:
        # Adapters add the number to the first port; GPUs follow from the number as well.
        own = replace(profile, port=port - number)
        if number >= profile.replica_count - profile.control_replicas:
            own = replace(own, speculation=None)
        command = adapter.launch_command(own, number, python)
        return replace(
            command,
            speculation=setting_name(own.speculation),
            kv_dtype=measured.kv_dtype,
            weights=(measured.model, measured.draft),
        )

    return ReplicaPlan(
        count=profile.replica_count,
        first_port=profile.port,
        build=replica_command,
        stops_first=profile.stops_first,
        reserved_ports=frozenset(
            port for other in others if other.name != profile.name for port in other.ports
        ),
    )
