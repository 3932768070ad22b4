"""Advice on speculation for a profile: the speed-up of each setting that ran, as measured; pure.

Only what was measured is recommended. The published formula stands beside it: it promised 2.7 times
of draft models that made decoding slower.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.decode_speed import (
    MIN_SAMPLES,
    EstimateInterval,
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
    acceptance,
)
from proxy.engines.speculation.formula import (
    break_even_batch,
    saturation_tokens,
    speed_up,
    tokens_per_step,
)

#: Draft cost in steps of the model where nothing was measured: assumed, from the published ranges.
#: The highest of a draft model is what vLLM 0.23 took for 1.3 billion weights beside 8 billion on
#: an H100, without asynchronous scheduling.
ASSUMED_DRAFT_COSTS: Final = {
    SpeculativeMethod.DRAFT_MODEL: EstimateInterval(0.05, 0.1, 0.7),
    SpeculativeMethod.EAGLE3: EstimateInterval(0.05, 0.1, 0.2),
    SpeculativeMethod.MTP: EstimateInterval(0.05, 0.1, 0.2),
    SpeculativeMethod.NGRAM: EstimateInterval(0.005, 0.01, 0.02),
    SpeculativeMethod.SUFFIX: EstimateInterval(0.005, 0.01, 0.02),
}
_UNNAMED_METHOD: Final = (
    "its engines draft, and the profile does not say how: write the method as speculative"
)
#: Engines of which all is counted that advice needs.
_MEASURED: Final = " and ".join(
    name for name, adapter in ADAPTERS.items() if not adapter.metrics.missing_for_advice()
)
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
        acceptance: Acceptance per token; None where drafts are too few.
        length: Expected tokens per step.
        expected: Speed-up by the formula, at an assumed draft cost; None without an acceptance
            rate. It says why a speed is as it is, and is nothing to go by.
        measured: Speed-up as measured, with and without; None where either is missing.
        bands: The speeds by sequences at once.
        break_even: Sequences at once from which on the formula is below 1; None where it always is.
    """

    setting: str
    method: SpeculativeMethod | None = None
    depth: int = 0
    drafts: float = 0.0
    acceptance: EstimateInterval | None = None
    length: float = 1.0
    expected: EstimateInterval | None = None
    measured: EstimateInterval | None = None
    bands: tuple[BandSpeed, ...] = ()
    break_even: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationAdvice:
    """The options of a profile, best first, and the one to take.

    Attributes:
        options: Every setting with evidence.
        recommended: The setting to take, which was measured to pay; "" where none was.
        reason: The reason, in a sentence.
        concurrency: Sequences decoded at once, where most tokens were made of late.
        saturation: Tokens in a step from which on its time is taken to grow.
    """

    options: tuple[SpeculationOption, ...] = ()
    recommended: str = ""
    reason: str = ""
    concurrency: float = 1.0
    saturation: int = 0

    def option(self, setting: str) -> SpeculationOption | None:
        """The option of a setting; None where nothing is known of it."""
        return next((each for each in self.options if each.setting == setting), None)


def setting_name(speculation: Speculation | None) -> str:
    """The name under which a setting's evidence is kept."""
    return NO_SPECULATION if speculation is None else f"{speculation.method}:{speculation.tokens}"


def parse_setting(setting: str) -> tuple[SpeculativeMethod | None, int]:
    """The method and the depth of a setting's name; None and 0 for no speculation."""
    method, _, depth = setting.partition(":")
    known = method in set(SpeculativeMethod) and depth.isdecimal()
    return (SpeculativeMethod(method), int(depth)) if known else (None, 0)


def advise(profile: EngineProfile, evidence: SpeculationEvidence) -> SpeculationAdvice:
    """Advice by all that was measured on this profile."""
    made = evidence.recent_tokens()
    load = RecentLoad(made, _concurrency(evidence, made), profile_saturation(profile))
    plain = evidence.settings.get(NO_SPECULATION, SettingEvidence())
    options = [
        option
        for name, each in evidence.settings.items()
        if (option := _option_that_ran(name, each, plain, load)) is not None
    ]
    ranked = sorted(options, key=_rank)
    recommended, reason = recommend(ranked)
    reason = unmeasured_reason(profile) or reason
    if UNKNOWN_SETTING in evidence.settings and profile.speculation is None:
        reason = f"{reason}; {_UNNAMED_METHOD}"
    return SpeculationAdvice(
        options=tuple(ranked),
        recommended=recommended,
        reason=reason,
        concurrency=load.concurrency,
        saturation=load.saturation,
    )


@dataclass(frozen=True, slots=True)
class RecentLoad:
    """The load of late: tokens by band, sequences at once, and tokens that fit into a step."""

    tokens: Mapping[int, float]
    concurrency: float
    saturation: int

    @property
    def total(self) -> float:
        """All tokens."""
        return sum(self.tokens.values())


def profile_saturation(profile: EngineProfile) -> int:
    """Tokens in a step of a profile's replica from which on its time grows."""
    weights = f"{profile.quantization} {profile.model}"
    return saturation_tokens(profile.gpu, profile.gpus_per_replica, weights)


def _concurrency(evidence: SpeculationEvidence, made: Mapping[int, float]) -> float:
    """Sequences at once, on average, in the band where most tokens were made of late."""
    end = max(made, key=lambda end: made[end], default=1)
    bands = (setting.bands.get(end) for setting in evidence.settings.values())
    return max((band.concurrency for band in bands if band), default=1.0)


def _rank(option: SpeculationOption) -> tuple[bool, float]:
    """Those measured first, the quickest in front; without speculation it is 1."""
    gain = option.measured.value if option.measured else 1.0
    return option.measured is None and option.method is not None, -gain


def _option_that_ran(
    setting: str, ran: SettingEvidence, plain: SettingEvidence, load: RecentLoad
) -> SpeculationOption | None:
    """The option of a setting that ran; None for one of an unknown name."""
    method, depth = parse_setting(setting)
    if method is None:
        return SpeculationOption(setting=setting) if setting == NO_SPECULATION else None
    totals = ran.totals()
    option = SpeculationOption(setting=setting, method=method, depth=depth, drafts=totals.drafts)
    if totals.drafts < MIN_DRAFTS:
        return option
    bands = tuple(
        BandSpeed(
            sequences=end,
            share=load.tokens.get(end, 0.0) / load.total if load.total else 0.0,
            tokens_per_s=ran.bands[end].tokens_per_s(),
            without=plain.bands[end].tokens_per_s() if end in plain.bands else None,
        )
        for end in sorted(ran.bands)
    )
    rate = acceptance(totals.drafts, totals.accepted, totals.full_drafts)
    option = replace(option, acceptance=rate, measured=measured_speed_up(bands), bands=bands)
    return option_by_formula(option, load.concurrency, load.saturation)


def measured_speed_up(bands: Iterable[BandSpeed]) -> EstimateInterval | None:
    """The speed-up at the load of late; None where most of that was not measured both ways."""
    parts = [
        (band.share, band.tokens_per_s, band.without)
        for band in bands
        if band.share and band.tokens_per_s is not None and band.without is not None
    ]
    covered = sum(share for share, _, _ in parts)
    return combined_speed_up(parts) if covered >= MIN_COVERED_SHARE else None


def option_by_formula(
    option: SpeculationOption, concurrency: float, saturation: int
) -> SpeculationOption:
    """The option with its speed-up by the formula; the assumed draft cost widens the interval.

    Args:
        option: The option, with an acceptance rate.
        concurrency: Sequences at once.
        saturation: Tokens in a step from which on its time grows.
    """
    rate = option.acceptance
    assert rate is not None  # noqa: S101 - callers have looked
    assert option.method is not None  # noqa: S101 - nor is it asked without speculation
    cost = ASSUMED_DRAFT_COSTS[option.method]

    def gain(share: float, cost: float) -> float:
        return speed_up(share, option.depth, cost, concurrency, saturation)

    return replace(
        option,
        length=tokens_per_step(rate.value, option.depth),
        expected=EstimateInterval(
            gain(rate.low, cost.high),
            gain(rate.value, cost.value),
            gain(rate.high, cost.low),
        ),
        break_even=break_even_batch(rate.value, option.depth, cost.value, saturation),
    )


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
        profile: The profile.
        chosen: The setting that ``auto`` chose; "" where it chose none.
        advice: The advice for the profile.
    """
    setting = setting_name(profile.speculation) if profile.auto_speculation is None else chosen
    method, depth = parse_setting(setting)
    if method is None:
        return None
    return advice.option(setting) or SpeculationOption(setting=setting, method=method, depth=depth)


def describe_options(advice: SpeculationAdvice) -> Iterator[dict[str, object]]:
    """The options as plain values, for tables and JSON."""
    for each in advice.options:
        yield {
            "setting": each.setting,
            "method": str(each.method or NO_SPECULATION),
            "tokens": each.depth,
            "drafts": round(each.drafts),
            "acceptance_rate": _triple(each.acceptance),
            "tokens_per_step": round(each.length, 2),
            "speed_up_expected": _triple(each.expected),
            "speed_up_measured": _triple(each.measured),
            "break_even_batch": None if each.break_even is None else round(each.break_even, 1),
            "bands": [_band_document(band) for band in each.bands],
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
    return [round(each, 3) for each in (interval.low, interval.value, interval.high)]
