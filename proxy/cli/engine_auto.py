"""Has ``auto`` act while its replicas run: a rolling change once what was measured is sure."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

import typer

from proxy.catalog.engine_layer import replica_upstream
from proxy.cli.engine_changes import RollingChanges
from proxy.cli.terminal import Terminal
from proxy.engines.decode_speed import SpeedSums
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.auto_choice import SpeculationRecord, choose_setting
from proxy.engines.speculation.feature_advice import FeatureSpeculation, features_speed_up
from proxy.errors import OperatorError
from proxy.store.errors import StoreError
from proxy.store.store import Store

_log = logging.getLogger("thriftgate")

#: Seconds between two looks at what was measured.
LOOK_INTERVAL_S: Final = 300.0
#: Seconds that a setting runs before ``auto`` changes it by itself: a change empties caches.
MIN_RUN_S: Final = 3_600.0


async def follow_measurements(
    profile: EngineProfile,
    record: SpeculationRecord,
    changes: RollingChanges,
    terminal: Terminal,
    read_features: Callable[[float], Mapping[str, FeatureSpeculation]],
) -> None:
    """Ask for a rolling change whenever ``auto`` would take another setting, until cancelled.

    Args:
        profile: The profile, as it was when its replicas started.
        record: The measurements, which others write.
        changes: Takes the request.
        terminal: Knows the time.
        read_features: Reads the profile's calls since a moment, by feature; called on a thread.
    """
    while True:
        await asyncio.sleep(LOOK_INTERVAL_S)
        now, choice = terminal.now(), record.choice
        if choice is None or now - choice.since < MIN_RUN_S:
            continue
        features = await asyncio.to_thread(read_features, max(choice.since, now - MIN_RUN_S))
        record.note_features(features_speed_up(features.values()))
        if choose_setting(profile, record, now).setting != choice.setting:
            changes.request(also_unchanged=False)


def feature_reader(
    terminal: Terminal, profile: EngineProfile
) -> Callable[[float], Mapping[str, FeatureSpeculation]]:
    """A function that reads a profile's calls since a moment; without a database there are none."""

    def read(since: float) -> Mapping[str, FeatureSpeculation]:
        try:
            with terminal.store() as store:
                return speculation_by_feature(store, profile, since)
        except (OperatorError, StoreError, OSError, typer.Exit) as error:
            _log.info("Calls of %s could not be read for its speculation: %s", profile.name, error)
            return {}

    return read


def speculation_by_feature(
    store: Store, profile: EngineProfile, since: float
) -> dict[str, FeatureSpeculation]:
    """The calls that a profile's replicas answered since a moment, by feature."""
    upstreams = [replica_upstream(profile.name, number) for number in range(profile.replica_count)]
    features: dict[str, FeatureSpeculation] = {}
    for row in store.reports.feature_speeds(upstreams, since):
        feature = features.setdefault(row.feature, FeatureSpeculation())
        speeds = SpeedSums(
            samples=row.samples,
            tokens=row.tokens,
            decode_s=row.decode_s,
            rate_squares=row.rate_squares,
        )
        if row.is_drafted:
            feature.calls, feature.drafted = row.calls, speeds
            feature.draft_tokens = row.draft_tokens
            feature.accepted_tokens = row.accepted_tokens
        else:
            feature.plain = speeds
    return features
