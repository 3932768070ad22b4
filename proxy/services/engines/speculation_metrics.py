"""The speculation advisor's figures as metrics: what it recommends, and what that gained.

`thriftgate engine serve` writes its evidence to a file beside the state; it is read again when it
has changed.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from proxy.engines.metrics.kv_pressure import kv_advice
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import SpeculationAdvice, advise, parse_setting
from proxy.engines.speculation.evidence import NO_SPECULATION
from proxy.engines.state.speculation_file import read_record, record_version
from proxy.engines.state.state_file import profile_folder

_BY: Final = ("engine", "setting")


class ProfileAdvice(NamedTuple):
    """The advice for a profile: on speculation, and on its KV cache; "" for none on that."""

    speculation: SpeculationAdvice
    kv_cache: str = ""


class SpeculationCollector(Collector):
    """Metrics of speculation by profile and setting."""

    def __init__(self, folder: Path, profiles: Callable[[], Mapping[str, EngineProfile]]) -> None:
        self._folder = folder
        self._profiles = profiles
        self._known: dict[str, tuple[EngineProfile, int, ProfileAdvice]] = {}

    def advice(self) -> Mapping[str, ProfileAdvice]:
        """The advice for each profile, by its present record; reads files."""
        profiles = self._profiles()
        self._known = {name: entry for name, entry in self._known.items() if name in profiles}
        return {name: self._advice(profile) for name, profile in profiles.items()}

    def collect(self) -> Iterator[Metric]:
        """All of it, as Prometheus' own types."""
        advice_by_profile = {name: advice.speculation for name, advice in self.advice().items()}
        recommended = GaugeMetricFamily(
            "thriftgate_engine_speculation_recommended",
            "1 for the method and depth that the advisor recommends, where data suffice",
            labels=["engine", "method", "tokens"],
        )
        for name, advice in advice_by_profile.items():
            if advice.recommended:
                method, depth = parse_setting(advice.recommended)
                recommended.add_metric([name, str(method or NO_SPECULATION), str(depth)], 1.0)
        yield recommended
        yield from _gains(advice_by_profile)

    def _advice(self, profile: EngineProfile) -> ProfileAdvice:
        """The advice by the present record; computed once for each."""
        folder = profile_folder(self._folder, profile.name)
        version, entry = record_version(folder), self._known.get(profile.name)
        if entry is not None and entry[:2] == (profile, version):
            return entry[2]
        record = read_record(folder, profile)
        advice = ProfileAdvice(advise(profile, record.evidence), kv_advice(profile, record.kv_sums))
        self._known[profile.name] = (profile, version, advice)
        return advice


def _gains(advice_by_profile: Mapping[str, SpeculationAdvice]) -> Iterator[Metric]:
    """Speed-up, acceptance and tokens a step of each setting that is known."""
    gain = GaugeMetricFamily(
        "thriftgate_engine_speculation_speed_up",
        "Tokens per second with the setting ÷ without, as measured",
        labels=_BY,
    )
    accepted = GaugeMetricFamily(
        "thriftgate_engine_speculation_acceptance",
        "Accepted ÷ draft tokens",
        labels=_BY,
    )
    length = GaugeMetricFamily(
        "thriftgate_engine_speculation_tokens_per_step",
        "Tokens that a step of the model gave",
        labels=_BY,
    )
    for name, advice in advice_by_profile.items():
        for option in advice.options:
            labels = [name, option.setting]
            if option.measured is not None:
                gain.add_metric(labels, option.measured.value)
            if option.acceptance is not None:
                accepted.add_metric(labels, option.acceptance)
                length.add_metric(labels, option.tokens_per_step)
    yield from (gain, accepted, length)
