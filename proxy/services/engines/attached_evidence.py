"""Evidence of speculation and of pressure on the KV cache, of engines that others run.

`thriftgate engine serve` keeps the record of the replicas it runs. Attached ones have no
supervisor, so a gateway keeps theirs, by the pages that it reads anyway::

    each second: ReplicaMonitor ─► note ─► a sample every 5 s, in memory
    every 30 s:  run ─► speculation.json, on a thread

Several gateways on a folder read the same pages, so that the record of each will do: the last one
to write replaces the others', and one that starts goes on with what it finds.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import setting_name, unmeasured_reason
from proxy.engines.speculation.evidence import NO_SPECULATION, UNKNOWN_SETTING
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.speculation_file import (
    SAMPLE_S,
    SpeculationRecorder,
    read_record,
    write_record,
)
from proxy.engines.state.state_file import is_supervised, profile_folder
from proxy.services.engines.replica_monitor import INTERVAL_S, ReplicaStatus

#: Seconds between two writes of a record.
WRITE_INTERVAL_S: Final = 30.0


@dataclass(slots=True)
class _KeptRecord:
    """The record of a profile, and when a page of each replica went into it last."""

    profile: EngineProfile
    recorder: SpeculationRecorder
    read_at: dict[str, float] = field(default_factory=dict)


class AttachedEvidence:
    """Keeps the records of attached engines."""

    def __init__(
        self,
        folder: Path,
        profiles: Callable[[], Mapping[str, EngineProfile]],
        now: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._profiles = profiles
        self._now = now
        self._kept: dict[str, _KeptRecord] = {}
        self._is_failing = False

    def note(self, status: ReplicaStatus) -> None:
        """Take in a replica's new reading, if its last one is long enough ago."""
        record = self._kept.get(status.profile)
        if record is None or status.metrics is None:
            return
        if self._profiles().get(status.profile) != record.profile:
            return  # `keep` begins anew with the changed profile
        last = record.read_at.get(status.name)
        if last is not None and status.read_at - last < SAMPLE_S - INTERVAL_S / 2:
            return
        record.read_at[status.name] = status.read_at
        report = _report(record.profile, status)
        record.recorder.note([report], {report.name: status.metrics}, self._now())

    async def run(self) -> None:
        """Keep the records until cancelled; at the end they are written."""
        try:
            while True:
                await self.keep()
                await asyncio.sleep(WRITE_INTERVAL_S)
        finally:
            ended, self._kept = self._kept, {}
            await asyncio.to_thread(self._write_all, _snapshots(ended))

    async def keep(self) -> None:
        """Write the records, begin those of new profiles, leave those of gone ones."""
        profiles = {
            profile.name: profile
            for profile in self._profiles().values()
            if profile.is_attached and not unmeasured_reason(profile)
        }
        self._kept = {name: record for name, record in self._kept.items() if name in profiles}
        await asyncio.to_thread(self._write_all, _snapshots(self._kept))
        for name, profile in profiles.items():
            held = self._kept.get(name)
            if held is None:
                folder = profile_folder(self._folder, name)
                record = await asyncio.to_thread(read_record, folder, profile)
            elif held.profile != profile:
                record = held.recorder.record
                record.clear_if_other(profile)
            else:
                continue
            self._kept[name] = _KeptRecord(profile, SpeculationRecorder(record))

    def _write_all(self, records: Sequence[tuple[str, msgspec.Raw]]) -> None:
        """Replace records, except where a supervisor runs the profile by now; blocks on files."""
        for name, data in records:
            folder = profile_folder(self._folder, name)
            if not is_supervised(folder):
                self._is_failing = not write_record(folder, data, is_quiet=self._is_failing)


def _snapshots(records: Mapping[str, _KeptRecord]) -> list[tuple[str, msgspec.Raw]]:
    """The records as they are now: a thread writes them while more is noted."""
    return [
        (name, msgspec.Raw(msgspec.json.encode(record.recorder.record)))
        for name, record in records.items()
    ]


def _report(profile: EngineProfile, status: ReplicaStatus) -> ReplicaReport:
    """The report that a supervisor would give of the replica; its starts stand for its process."""
    return ReplicaReport(
        name=status.name,
        base_url=status.base_url,
        metrics_url="",
        state=ProcessState.READY,
        since=0.0,
        pid=status.starts,
        speculation=_setting(profile, status),
        kv_dtype=str(profile.kv_dtype),
    )


def _setting(profile: EngineProfile, status: ReplicaStatus) -> str:
    """The setting that the replica runs: none where it never drafted, else as its profile says."""
    drafts = None if status.metrics is None else status.metrics.value("spec_drafts")
    if not drafts:
        return NO_SPECULATION
    return UNKNOWN_SETTING if profile.speculation is None else setting_name(profile.speculation)
