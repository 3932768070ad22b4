"""The record of a profile's speculation in its folder, and the readings that it grows by."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proxy.engines.metrics.kv_pressure import KVCounters, KVSums, kv_counters
from proxy.engines.metrics.metrics_page import EngineMetrics
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.auto_choice import (
    SpeculationRecord,
    apply_choice,
    choose_setting,
)
from proxy.engines.speculation.evidence import SpeculationCounters, sample_between
from proxy.engines.state.replica_report import ReplicaReport
from proxy.engines.state.state_file import replace_private_file

_log = logging.getLogger("thriftgate")

_FILE: Final = "speculation.json"
#: Seconds of a sample; shorter ones are noise, and longer ones mix loads.
SAMPLE_S: Final = 5.0


def read_record(folder: Path, profile: EngineProfile) -> SpeculationRecord:
    """The record in a profile's folder; an empty one without any of its model that can be read."""
    try:
        record = msgspec.json.decode((folder / _FILE).read_bytes(), type=SpeculationRecord)
    except (OSError, msgspec.DecodeError):
        record = SpeculationRecord()
    record.clear_if_other(profile)
    return record


def record_version(folder: Path) -> int:
    """A number that changes with the record in a folder; 0 where there is none."""
    try:
        return (folder / _FILE).stat().st_mtime_ns
    except OSError:
        return 0


def write_record(
    folder: Path, record: SpeculationRecord | msgspec.Raw, *, is_quiet: bool = False
) -> bool:
    """Replace the record; False where that fails, which is logged unless it is to be quiet."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private_file(folder / _FILE, record)
    except OSError as error:
        if not is_quiet:
            _log.warning("The advisor's record in %s cannot be written: %s", folder, error)
        return False
    return True


def resolve_auto(profile: EngineProfile, record: SpeculationRecord, now: float) -> EngineProfile:
    """The profile with the setting that is to run; where it says ``auto``, the record gets it.

    A record of another model is cleared before.
    """
    record.clear_if_other(profile)
    if profile.auto_speculation is None:
        return profile
    record.choice = choose_setting(profile, record, now)
    return apply_choice(profile, record.choice)


def engine_counters(metrics: EngineMetrics) -> SpeculationCounters | None:
    """The counters that speculation is judged by; None without output and decode time."""
    tokens = metrics.value("generation_tokens")
    histogram = metrics.histograms.get("decode_seconds")
    seconds = histogram[0] if histogram else metrics.value("decode_seconds_total")
    if tokens is None or seconds is None:
        return None
    return SpeculationCounters(
        tokens=tokens,
        decode_s=seconds,
        drafts=metrics.value("spec_drafts") or 0.0,
        draft_tokens=metrics.value("spec_draft_tokens") or 0.0,
        accepted=metrics.value("spec_accepted_tokens") or 0.0,
    )


class SpeculationRecorder:
    """Adds what ready replicas did since the last reading to a profile's record.

    Attributes:
        record: The record, which others may read and whose choice they may set.
    """

    def __init__(self, record: SpeculationRecord) -> None:
        self.record = record
        self._last: dict[str, tuple[int, float, float, SpeculationCounters]] = {}
        self._last_kv: dict[str, tuple[int, KVCounters]] = {}

    def note(
        self, reports: Sequence[ReplicaReport], pages: Mapping[str, EngineMetrics], now: float
    ) -> None:
        """Take in a reading of each replica.

        Args:
            pages: Their metrics by name; those that cannot be read are left out.
        """
        for report in reports:
            page = pages.get(report.name)
            if page is None or not self._has_weights(report):
                continue
            self._note_kv(report, page, now)
            counters = engine_counters(page)
            if counters is None:
                continue
            running = page.value("running") or 0.0
            before = self._last.get(report.name)
            self._last[report.name] = (report.pid, now, running, counters)
            if before is None or before[0] != report.pid or now <= before[1]:
                continue
            sample = sample_between(before[3], counters, running)
            if sample is not None:
                at_once = max((before[2] + running) / 2, sample.decode_s / (now - before[1]), 1.0)
                sample = msgspec.structs.replace(sample, running=at_once)
                measured = self.record.measured
                if measured is None or measured.kv_dtype == report.kv_dtype:
                    self.record.evidence.add(report.speculation, sample, now)
                kv_sums = self.record.kv_sums[report.kv_dtype]
                kv_sums.tokens += sample.tokens
                kv_sums.decode_s += sample.decode_s

    def _has_weights(self, report: ReplicaReport) -> bool:
        """False if the replica still runs the weights of before a rolling change."""
        measured, weights = self.record.measured, report.weights
        return measured is None or weights is None or measured.has_weights(*weights)

    def _note_kv(self, report: ReplicaReport, page: EngineMetrics, now: float) -> None:
        """Take in the pressure on the replica's KV cache."""
        kv_sums = self.record.kv_sums.setdefault(report.kv_dtype, KVSums())
        kv_sums.add(page, now)
        counters = kv_counters(page)
        before = self._last_kv.pop(report.name, None)
        if counters is None:
            return
        self._last_kv[report.name] = report.pid, counters
        if before is not None and before[0] == report.pid:
            kv_sums.add_growth(before[1], counters)
