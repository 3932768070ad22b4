"""One gateway's view of its engines, in a file of its own, so that ``engine status`` can read it.

A gateway replaces its file every few seconds, and removes it when it ends. One that was killed
leaves its file behind: its age shows that, and its next reader removes it.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proxy.engines.state.state_file import replace_private_file

_log = logging.getLogger("thriftgate")

#: Seconds between two reports, and from which age on one is of a gateway that is gone.
REPORT_INTERVAL_S: Final = 5.0
MAX_AGE_S: Final = 30.0
_NAME: Final = "traffic-{}.json"


class PrefixReuse(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt tokens of the calls that were sent, and how many of them were reused.

    Attributes:
        available: Those that one cache with the room of all replicas would have had.
        captured: Those that the chosen replica was thought to hold.
        delivered: Those that engines read from their caches, as they report.
    """

    prompt_tokens: int = 0
    available: int = 0
    captured: int = 0
    delivered: int = 0


class ReplicaTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as a gateway sees it; None for what its engine does not say.

    Attributes:
        running: Calls in its batch, of all callers.
        kv_usage: Part of its KV cache in use.
        preemptions: Times that a call lost its KV blocks to others, since the engine's start.
        kv_dtype: Number format of its KV cache by the profile; "auto" for the model's own.
        calls_in_flight: Calls that this gateway has there.
        events: True if its cache is known by its own events.
        reuse: Of the calls that this gateway sent there.
    """

    name: str
    profile: str
    model: str
    base_url: str
    is_healthy: bool
    reason: str = ""
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    kv_dtype: str = ""
    calls_in_flight: int = 0
    events: bool = False
    reuse: PrefixReuse = PrefixReuse()


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingReport:
    """Prompts of one kind that were read ahead, and what that gained, of one profile.

    Attributes:
        kind: ``system_prompt``, ``next_turn`` or ``typed``.
        computed_tokens: Tokens that engines computed for it.
        cost_nanos: Nano-dollars of it, as far as they are known.
        used_calls: Calls that found their beginning warmed.
        used_tokens: Tokens that they read of it from the cache.
        saved_s: Seconds of prefill that they were spared, as an estimate.
    """

    profile: str
    kind: str
    prompts: int = 0
    computed_tokens: int = 0
    cost_nanos: int = 0
    used_calls: int = 0
    used_tokens: int = 0
    saved_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingReport:
    """A setting of speculation and what is known of it; None for what is not.

    Attributes:
        setting: Its name, such as ``ngram:4``.
        acceptance: Accepted ÷ draft tokens.
        tokens_per_step: Tokens that a step of the model gave.
        measured: Speed-up as measured.
        bands: Measured speed-ups by sequences at once, such as ``3 to 4: 1.20x``.
    """

    setting: str
    acceptance: float | None = None
    tokens_per_step: float = 1.0
    measured: float | None = None
    bands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationReport:
    """The advice on speculation and on the KV cache of one profile.

    Attributes:
        recommended: Name of the setting to take; "" while data are few.
        settings: The settings that something is known of, best first.
        kv_cache: The advice on its KV cache; "" for none.
    """

    profile: str
    recommended: str
    reason: str
    kv_cache: str = ""
    settings: tuple[SettingReport, ...] = ()


class EngineTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """Traffic that one gateway has seen since it started.

    Attributes:
        pid: Its process.
        at: Time of the report, in seconds since the epoch.
        models: Reuse by the name that engines serve a model under.
        warming: Prompts that were read ahead, by profile and kind.
        speculation: The advice on it, by profile.
    """

    pid: int
    at: float
    models: dict[str, PrefixReuse] = {}
    replicas: tuple[ReplicaTraffic, ...] = ()
    warming: tuple[WarmingReport, ...] = ()
    speculation: tuple[SpeculationReport, ...] = ()


class TrafficFile:
    """The file of one gateway."""

    def __init__(self, folder: Path, pid: int) -> None:
        self._path = folder / "engines" / _NAME.format(pid)
        self._has_failed = False

    def write(self, traffic: EngineTraffic) -> None:
        """Replace the report; where that fails it is logged once."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private_file(self._path, traffic)
        except OSError as error:
            if not self._has_failed:
                _log.warning("What engines do cannot be written to %s: %s", self._path, error)
            self._has_failed = True

    def remove(self) -> None:
        """Remove it, for the gateway ends."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def read_traffic(folder: Path, now: float) -> list[EngineTraffic]:
    """The reports of the gateways that run on a data folder, by process."""
    reports = []
    for path in (folder / "engines").glob(_NAME.format("*")):
        with suppress(OSError, msgspec.DecodeError):
            traffic = msgspec.json.decode(path.read_bytes(), type=EngineTraffic)
            if now - traffic.at <= MAX_AGE_S:
                reports.append(traffic)
            else:
                path.unlink(missing_ok=True)
    return sorted(reports, key=lambda report: report.pid)
