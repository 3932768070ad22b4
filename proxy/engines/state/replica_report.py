"""The state of one replica, as its supervisor reports it to people, files and programs."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ProcessState(StrEnum):
    """A replica's state."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    CRASH_LOOP = "crash_loop"
    FAILED = "failed"


#: States that a replica does not leave by itself.
FINAL_STATES: Final = frozenset(
    {ProcessState.STOPPED, ProcessState.CRASH_LOOP, ProcessState.FAILED}
)
#: Final states that are faults.
LOST_STATES: Final = frozenset({ProcessState.CRASH_LOOP, ProcessState.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """The state of a replica, for people and programs.

    Attributes:
        name: Its port, which is its own among the engines of a machine.
        metrics_url: Its Prometheus metrics; "" for none.
        since: Time it began, in seconds since the epoch.
        pid: The engine's process; 0 for none.
        reason: Reason for the state; "" where nothing is wrong.
        last_lines: Its last output, where it ended unexpectedly.
        replica: Its number in the profile, from 0.
        speculation: Name of its speculative setting; "none" for no speculation.
        kv_dtype: Number format of its KV cache; "auto" for the model's own.
        weights: Its model, and the draft model of its profile or ""; None where that is not known.
        left_out: Flags that its engine does not know and is run without, each with its reason.
    """

    name: str
    base_url: str
    metrics_url: str
    state: ProcessState
    since: float
    pid: int = 0
    restarts: int = 0
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    log: str = ""
    replica: int = 0
    speculation: str = ""
    kv_dtype: str = ""
    weights: tuple[str, str] | None = None
    left_out: tuple[str, ...] = ()
