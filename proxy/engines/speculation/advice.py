"""Advice on speculation for a profile: the speed-up of each setting that ran, as measured; pure.

Nothing is recommended that was not measured: the published formula promised 2.7 times of draft
models that made decoding slower.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.metrics.decode_speed import (
    MIN_SAMPLES,
    EstimateInterval,
    SpeedSums,
    band_text,
    combined_speed_up,
    speed_ratio,
)
from proxy.engines.profiles import EngineProfile, Speculation, SpeculativeMethod
from proxy.engines.speculation.evidence import (
    MIN_DRAFTS,
    NO_SPECULATION,
    UNKNOWN_SETTING,
    SettingEvidence,
    SpeculationEvidence,
)

_UNNAMED_METHOD: Final = (
    "its engines draft, and the profile does not say how: write the method as speculative"
)
#: Engines of which all is counted that advice needs.
_MEASURED: Final = " and ".join(
    name for name, adapter in ADAPTERS.items() if not adapter.metrics.missing_for_advice()
)
#: Calls from which on a feature's acceptance, or a speed of it, is taken for one.
MIN_CALLS: Final = 20
#: Part of the tokens of late that has to be at loads measured with and without.
MIN_COVERED_SHARE: Final = 0.5
_NOT_MEASURED: Final = (
    f"not measured yet: {{setting}} needs {MIN_SAMPLES} samples with it and without speculation at"
    " the same number of sequences at once, as control_replicas gives them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSpeed:
    """The speeds with a setting and without at some numbers of sequences at once.

    Attributes:
        sequences: The highest of these numbers, one of ``BANDS``.
        share: Part of the tokens made of late at these numbers, 0 to 1.
        tokens_per_s: Tokens per second of a sequence with the setting; None where unknown.
        without: The same without speculation.
    """

    sequences: int
    share: float
    tokens_per_s: EstimateInterval | None
    without: EstimateInterval | None

    @property
    def speed_up(self) -> EstimateInterval | None:
        """The speed with ÷ without; None where either is not known."""
        return speed_ratio(self.tokens_per_s, self.without)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationOption:
    """A setting that ran, and what is known of it at the load of late.

    Attributes:
        setting: Its name, such as ``ngram:4``.
        method: Its method; None without speculation.
        depth: Draft tokens per step; 0 without speculation.
        drafts: Drafts that its acceptance comes from.
        acceptance: Accepted ÷ draft tokens; None where drafts are too few.
        tokens_per_step: Tokens that a step of the model gave; 1 without speculation.
        measured: Speed-up as measured, with and without; None where either is missing.
        bands: The speeds by sequences at once.
    """

    setting: str
    method: SpeculativeMethod | None = None
    depth: int = 0
    drafts: float = 0.0
    acceptance: float | None = None
    tokens_per_step: float = 1.0
    measured: EstimateInterval | None = None
    bands: tuple[BandSpeed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationAdvice:
    """The options of a profile, best first, and the one to take.

    Attributes:
        options: Every setting with evidence.
        recommended: The setting to take, which was measured to pay; "" where none was.
    """

    options: tuple[SpeculationOption, ...] = ()
    recommended: str = ""
    reason: str = ""

    def option(self, setting: str) -> SpeculationOption | None:
        """The option of a setting; None where nothing is known of it."""
        return next((option for option in self.options if option.setting == setting), None)


def setting_name(speculation: Speculation | None) -> str:
    """The name under which a setting's evidence is kept."""
    return NO_SPECULATION if speculation is None else f"{speculation.method}:{speculation.tokens}"


def parse_setting(setting: str) -> tuple[SpeculativeMethod | None, int]:
    """The method and the depth of a setting's name; None and 0 for no speculation."""
    method, _, depth = setting.partition(":")
    is_known = method in set(SpeculativeMethod) and depth.isdecimal()
    return (SpeculativeMethod(method), int(depth)) if is_known else (None, 0)


def advise(profile: EngineProfile, evidence: SpeculationEvidence) -> SpeculationAdvice:
    """Advice by all that was measured on this profile."""
    tokens = evidence.recent_tokens()
    plain = evidence.settings.get(NO_SPECULATION, SettingEvidence())
    options = [
        option
        for name, setting in evidence.settings.items()
        if (option := _option_that_ran(name, setting, plain, tokens)) is not None
    ]
    ranked = sorted(options, key=_rank)
    recommended, reason = recommend(ranked)
    reason = unmeasured_reason(profile) or reason
    if UNKNOWN_SETTING in evidence.settings and profile.speculation is None:
        reason = f"{reason}; {_UNNAMED_METHOD}"
    return SpeculationAdvice(options=tuple(ranked), recommended=recommended, reason=reason)


def _rank(option: SpeculationOption) -> tuple[bool, float]:
    """Those measured first, the quickest in front; without speculation it is 1."""
    gain = option.measured.value if option.measured else 1.0
    return option.measured is None and option.method is not None, -gain


def _option_that_ran(
    name: str, setting: SettingEvidence, plain: SettingEvidence, tokens: Mapping[int, float]
) -> SpeculationOption | None:
    """The option of a setting that ran; None for one of an unknown name.

    Args:
        plain: Evidence without speculation.
        tokens: Tokens made of late by band.
    """
    method, depth = parse_setting(name)
    if method is None:
        return SpeculationOption(setting=name) if name == NO_SPECULATION else None
    totals = setting.totals()
    if totals.drafts < MIN_DRAFTS:
        return SpeculationOption(setting=name, method=method, depth=depth, drafts=totals.drafts)
    total = sum(tokens.values())
    bands = tuple(
        BandSpeed(
            sequences=end,
            share=tokens.get(end, 0.0) / total if total else 0.0,
            tokens_per_s=setting.bands[end].tokens_per_s(),
            without=plain.bands[end].tokens_per_s() if end in plain.bands else None,
        )
        for end in sorted(setting.bands)
    )
    return SpeculationOption(
        setting=name,
        method=method,
        depth=depth,
        drafts=totals.drafts,
        acceptance=totals.accepted / totals.draft_tokens if totals.draft_tokens else None,
        tokens_per_step=1.0 + totals.accepted / totals.drafts,
        measured=measured_speed_up(bands),
        bands=bands,
    )


def measured_speed_up(bands: Iterable[BandSpeed]) -> EstimateInterval | None:
    """The speed-up at the load of late; None where most of that was not measured both ways."""
    parts = [
        (band.share, band.tokens_per_s, band.without)
        for band in bands
        if band.share and band.tokens_per_s is not None and band.without is not None
    ]
    covered = sum(share for share, _, _ in parts)
    return combined_speed_up(parts) if covered >= MIN_COVERED_SHARE else None


def unmeasured_reason(profile: EngineProfile) -> str:
    """The reason why a profile's engine cannot be advised on; "" where it can."""
    missing = ADAPTERS[profile.engine].metrics.missing_for_advice()
    if not missing:
        return ""
    listed = ", ".join(missing[:-1]) + " or " + missing[-1] if missing[1:] else missing[0]
    return (
        f"no advice, and none will come: {profile.engine} counts no {listed} on its metrics page;"
        f" only {_MEASURED} are measured"
    )


def recommend(ranked: Iterable[SpeculationOption]) -> tuple[str, str]:
    """The setting to take, "" where none was measured to pay, and the reason in a sentence."""
    methods = [option for option in ranked if option.method is not None]
    measured = [(option.measured.low, option) for option in methods if option.measured is not None]
    if not measured:
        if all(option.acceptance is None for option in methods):
            return "", f"not enough data: a method needs {MIN_DRAFTS} drafts"
        return "", _NOT_MEASURED.format(setting=methods[0].setting)
    _, best = max(measured, key=lambda pair: pair[0])
    gain = best.measured
    assert gain is not None  # noqa: S101 - those without were left out
    text = f"{best.setting} was measured at {gain_text(gain)}"
    if gain.low > 1.0:
        return best.setting, "; ".join([text, *_slow_bands(best)])
    if gain.high <= 1.0:
        return NO_SPECULATION, f"no method pays: the best, {text}"
    return "", f"not enough data to tell: {text}"


def gain_text(gain: EstimateInterval) -> str:
    """A speed-up with its interval."""
    return f"{gain.value:.2f}x ({gain.low:.2f} to {gain.high:.2f})"


def _slow_bands(option: SpeculationOption) -> Iterator[str]:
    """The numbers of sequences at once at which a setting that pays otherwise is slower."""
    for band in option.bands:
        if (gain := band.speed_up) is not None and gain.high < 1.0:
            yield f"slower at {band_text(band.sequences)} sequences at once: {gain.value:.2f}x"


def option_that_runs(
    profile: EngineProfile, chosen: str, advice: SpeculationAdvice
) -> SpeculationOption | None:
    """The option of the setting that a profile runs with; None without speculation.

    Args:
        chosen: The setting that ``auto`` chose; "" where it chose none.
    """
    setting = setting_name(profile.speculation) if profile.auto_speculation is None else chosen
    method, depth = parse_setting(setting)
    if method is None:
        return None
    return advice.option(setting) or SpeculationOption(setting=setting, method=method, depth=depth)


def describe_options(advice: SpeculationAdvice) -> Iterator[dict[str, object]]:
    """The options as plain values, for tables and JSON."""
    for option in advice.options:
        yield {
            "setting": option.setting,
            "method": str(option.method or NO_SPECULATION),
            "tokens": option.depth,
            "drafts": round(option.drafts),
            "acceptance_rate": None if option.acceptance is None else round(option.acceptance, 3),
            "tokens_per_step": round(option.tokens_per_step, 2),
            "speed_up_measured": _triple(option.measured),
            "bands": [_band_document(band) for band in option.bands],
        }


def _band_document(band: BandSpeed) -> dict[str, object]:
    return {
        "sequences": band_text(band.sequences),
        "share": round(band.share, 3),
        "tokens_per_s": _triple(band.tokens_per_s),
        "tokens_per_s_without": _triple(band.without),
        "speed_up": _triple(band.speed_up),
    }


def _triple(interval: EstimateInterval | None) -> list[float] | None:
    """Low, value and high, rounded."""
    if interval is None:
        return None
    return [round(end, 3) for end in (interval.low, interval.value, interval.high)]


@dataclass(slots=True)
class FeatureSpeculation:
    """The calls of one feature at a profile's replicas.

    Attributes:
        calls: Calls with drafts.
        draft_tokens: Tokens that were drafted for them.
        accepted_tokens: Those that the model accepted.
        plain: The speed of the calls without drafts.
    """

    calls: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    drafted: SpeedSums = field(default_factory=SpeedSums)
    plain: SpeedSums = field(default_factory=SpeedSums)

    def measured_speed_up(self) -> EstimateInterval | None:
        """Speed with drafts ÷ speed without; None where calls of either are too few."""
        return speed_ratio(self.drafted.tokens_per_s(MIN_CALLS), self.plain.tokens_per_s(MIN_CALLS))


def advise_feature(
    feature: FeatureSpeculation, setting: SpeculationOption | None
) -> SpeculationAdvice:
    """The setting that ran with a feature's calls, and whether to take it.

    Args:
        setting: The profile's present setting, for its depth; None for none.
    """
    if feature.calls < MIN_CALLS:
        reason = f"not enough data: {feature.calls} of {MIN_CALLS} calls with drafts"
        return SpeculationAdvice(reason=reason)
    if setting is None or setting.method is None or not feature.draft_tokens:
        return SpeculationAdvice(reason="the setting that runs is not known")
    drafts = feature.draft_tokens / setting.depth
    option = SpeculationOption(
        setting=setting.setting,
        method=setting.method,
        depth=setting.depth,
        drafts=drafts,
        acceptance=feature.accepted_tokens / feature.draft_tokens,
        tokens_per_step=1.0 + feature.accepted_tokens / drafts,
        measured=feature.measured_speed_up(),
    )
    recommended, reason = recommend([option])
    return SpeculationAdvice(options=(option,), recommended=recommended, reason=reason)
