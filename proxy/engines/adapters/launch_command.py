"""The command that starts one replica of an engine, and where it answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

#: The feature of all flags that make a model draft.
SPECULATION: Final = "speculation"


@dataclass(frozen=True, slots=True)
class LaunchFlag:
    """A part of an engine's command line.

    Attributes:
        argv: The flag and its values, as the engine takes them.
        feature: The feature it is part of, where answers are the same without that; an engine that
            does not know one of its flags runs without all. "" for a flag that has to be followed.
    """

    argv: tuple[str, ...]
    reason: str
    feature: str = ""


#: The reason of each flag, and the feature it is part of or "", by its name.
FlagReasons = Mapping[str, tuple[str, str]]


def launch_flags(
    reasons: FlagReasons, rows: Iterable[tuple[str, object] | LaunchFlag]
) -> list[LaunchFlag]:
    """The flags of a command line, each with its reason.

    Args:
        rows: Each flag and its value, or values: True for a flag without any; a flag whose value
            is False, None, "" or 0 is left out.
    """
    flags = []
    for row in rows:
        if isinstance(row, LaunchFlag):
            flags.append(row)
        elif row[1]:
            name, value = row
            values = value if isinstance(value, tuple) else () if value is True else (value,)
            argv = (
                name,
                *(f"{part:f}" if isinstance(part, Decimal) else str(part) for part in values),
            )
            flags.append(LaunchFlag(argv, *reasons[name]))
    return flags


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand:
    """The command of one replica.

    Attributes:
        program: The program and what it always takes, such as ``("vllm", "serve", "model")``.
        flags: Its flags, in order, each with its reason.
        health_url: Answers 200 once it can serve.
        metrics_url: Its Prometheus metrics; "" where it has none.
        start_seconds: Seconds within which it must be healthy.
        drain_seconds: Seconds that calls under way get once it is told to stop.
        busy_metrics: Metrics of calls under way. They are awaited to fall to 0 before SIGTERM, for
            engines that break their streams at that signal; () for those that finish them.
        replica: Number of the replica, from 0; its GPUs depend on it.
        speculation: Name of its speculative setting, such as ``ngram:4``.
        weights: Its model, and the draft model of its profile or ""; None if unknown.
    """

    program: tuple[str, ...]
    flags: tuple[LaunchFlag, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    base_url: str
    health_url: str
    metrics_url: str = ""
    start_seconds: float = 600.0
    drain_seconds: float = 30.0
    busy_metrics: tuple[str, ...] = ()
    replica: int = 0
    speculation: str = ""
    kv_dtype: str = ""
    weights: tuple[str, str] | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command line."""
        return (*self.program, *(part for flag in self.flags for part in flag.argv))
