"""Advice on speculation for a profile: each option's speed-up by formula and as measured; pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.decode_speed import MIN_SAMPLES, EstimateInterval, speed_ratio
from proxy.engines.profiles import EngineProfile, Speculation, SpeculativeMethod
from proxy.engines.speculation.evidence import (
    MIN_DRAFTS,
    NO_SPECULATION,
    UNKNOWN_SETTING,
    EvidenceBand,
    SpeculationEvidence,
    acceptance,
)
from proxy.engines.speculation.formula import (
    MAX_DEPTH,
    MAX_LOOKUP_DEPTH,
    best_depth,
    break_even_batch,
    draft_cost_from,
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
_LOOKUPS: Final = frozenset({SpeculativeMethod.NGRAM, SpeculativeMethod.SUFFIX})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationOption:
    """A setting, and what is known of it at the usual concurrency.

    Attributes:
        setting: Its name, such as ``ngram:4``.
        method: Its method; None without speculation.
        depth: Draft tokens per step; 0 without speculation.
        drafts: Drafts that its acceptance comes from.
        acceptance: Acceptance per token; None where drafts are too few.
        length: Expected tokens per step.
        expected: Speed-up by the formula; None without an acceptance rate.
        measured: Speed-up as measured, with and without; None where either is missing.
        break_even: Sequences at once from which on it no longer pays; None where it never does.
        draft_cost: Time of a draft token, in steps of the model.
        is_cost_measured: True if that follows from measured speeds.
    """

    setting: str
    method: SpeculativeMethod | None = None
    depth: int = 0
    drafts: float = 0.0
    acceptance: EstimateInterval | None = None
    length: float = 1.0
    expected: EstimateInterval | None = None
    measured: EstimateInterval | None = None
    break_even: float | None = None
    draft_cost: float = 0.0
    is_cost_measured: bool = False

    @property
    def gain(self) -> EstimateInterval | None:
        """The speed-up to go by: measured before expected."""
        return self.measured or self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculationAdvice:
    """The options of a profile, best first, and the one to take.

    Attributes:
        options: Every setting with evidence, and the best depth of each method that has some.
        recommended: The setting to take; "" where there is not enough data.
        reason: The reason, in a sentence.
        concurrency: Sequences decoded at once, where most tokens were made.
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
    end = evidence.busiest_band()
    bands = {name: each.bands.get(end) for name, each in evidence.settings.items()}
    concurrency = max((band.concurrency for band in bands.values() if band), default=1.0)
    saturation = saturation_tokens(profile.gpu, profile.gpus_per_replica)
    load = UsualLoad(concurrency, saturation, bands.get(NO_SPECULATION))
    tried = [
        _option_that_ran(name, each.totals(), bands[name], load)
        for name, each in evidence.settings.items()
    ]
    options = {each.setting: each for each in tried if each is not None}
    for each in list(options.values()):
        better = option_at_best_depth(each, load)
        if better is not None:
            options.setdefault(better.setting, better)
    ranked = sorted(options.values(), key=lambda each: -(each.gain.value if each.gain else 0.0))
    recommended, reason = recommend(ranked)
    reason = unmeasured_reason(profile) or reason
    if UNKNOWN_SETTING in evidence.settings and profile.speculation is None:
        reason = f"{reason}; {_UNNAMED_METHOD}"
    return SpeculationAdvice(
        options=tuple(ranked),
        recommended=recommended,
        reason=reason,
        concurrency=concurrency,
        saturation=saturation,
    )


@dataclass(frozen=True, slots=True)
class UsualLoad:
    """The usual concurrency, and the speed without speculation at it."""

    concurrency: float
    saturation: int
    without: EvidenceBand | None = None


def _option_that_ran(
    setting: str, totals: EvidenceBand, band: EvidenceBand | None, load: UsualLoad
) -> SpeculationOption | None:
    """The option of a setting that ran."""
    method, depth = parse_setting(setting)
    if method is None:
        one = EstimateInterval(1.0, 1.0, 1.0)
        return SpeculationOption(setting=setting, expected=one) if setting == "none" else None
    if totals.drafts < MIN_DRAFTS:
        return SpeculationOption(setting=setting, method=method, depth=depth, drafts=totals.drafts)
    rate = acceptance(totals.drafts, totals.accepted, totals.full_drafts)
    measured = speed_ratio(_tokens_per_s(band), _tokens_per_s(load.without))
    cost, is_measured = ASSUMED_DRAFT_COSTS[method].value, False
    if measured is not None and rate is not None and measured.value > 0:
        cost = draft_cost_from(measured.value, rate.value, depth, load.concurrency, load.saturation)
        is_measured = True
    return option_by_formula(
        SpeculationOption(
            setting=setting,
            method=method,
            depth=depth,
            drafts=totals.drafts,
            acceptance=rate,
            measured=measured,
            draft_cost=cost,
            is_cost_measured=is_measured,
        ),
        load,
    )


def option_at_best_depth(tried: SpeculationOption, load: UsualLoad) -> SpeculationOption | None:
    """The depth that the formula finds best for a method that ran; None if it is that one."""
    if tried.method is None or tried.acceptance is None:
        return None
    depths = range(1, (MAX_LOOKUP_DEPTH if tried.method in _LOOKUPS else MAX_DEPTH) + 1)
    rate, cost = tried.acceptance.value, tried.draft_cost
    depth = best_depth(rate, cost, load.concurrency, load.saturation, depths)
    if depth in (0, tried.depth):
        return None
    option = SpeculationOption(
        setting=f"{tried.method}:{depth}",
        method=tried.method,
        depth=depth,
        drafts=tried.drafts,
        acceptance=tried.acceptance,
        draft_cost=cost,
        is_cost_measured=tried.is_cost_measured,
    )
    return option_by_formula(option, load)


def option_by_formula(option: SpeculationOption, load: UsualLoad) -> SpeculationOption:
    """The option with its speed-up by the formula; an assumed draft cost widens the interval."""
    rate = option.acceptance
    assert rate is not None  # noqa: S101 - callers have looked
    assert option.method is not None  # noqa: S101 - nor is it asked without speculation
    cost = ASSUMED_DRAFT_COSTS[option.method]
    if option.is_cost_measured:
        cost = EstimateInterval(option.draft_cost, option.draft_cost, option.draft_cost)

    def gain(share: float, cost: float) -> float:
        return speed_up(share, option.depth, cost, load.concurrency, load.saturation)

    return SpeculationOption(
        setting=option.setting,
        method=option.method,
        depth=option.depth,
        drafts=option.drafts,
        acceptance=rate,
        length=tokens_per_step(rate.value, option.depth),
        expected=EstimateInterval(
            gain(rate.low, cost.high),
            gain(rate.value, cost.value),
            gain(rate.high, cost.low),
        ),
        measured=option.measured,
        break_even=break_even_batch(rate.value, option.depth, option.draft_cost, load.saturation),
        draft_cost=option.draft_cost,
        is_cost_measured=option.is_cost_measured,
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


def _tokens_per_s(band: EvidenceBand | None) -> EstimateInterval | None:
    return None if band is None else band.tokens_per_s()


def recommend(ranked: Iterable[SpeculationOption]) -> tuple[str, str]:
    """The setting to take, "" where data are too few, and the reason in a sentence."""
    known = [each for each in ranked if each.gain is not None]
    methods = [each for each in known if each.method is not None]
    if not methods:
        return "", f"not enough data: a method needs {MIN_DRAFTS} drafts"
    best = max(methods, key=lambda each: each.gain.low if each.gain else 0.0)
    gain = best.gain
    assert gain is not None  # noqa: S101 - those without were left out
    how = f"measured over {MIN_SAMPLES} samples or more" if best.measured else "by the formula"
    said = f"{gain.value:.2f}x ({gain.low:.2f} to {gain.high:.2f}), {how}"
    if gain.low > 1.0:
        return best.setting, f"{best.setting} is expected to give {said}"
    if gain.high <= 1.0:
        return NO_SPECULATION, f"no method pays: the best, {best.setting}, gives {said}"
    return "", f"not enough data to tell: {best.setting} may give {said}"


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
    cost = ASSUMED_DRAFT_COSTS[method].value
    return advice.option(setting) or SpeculationOption(
        setting=setting, method=method, depth=depth, draft_cost=cost
    )


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
            "draft_cost": round(each.draft_cost, 4),
            "draft_cost_is_measured": each.is_cost_measured,
        }


def _triple(interval: EstimateInterval | None) -> list[float] | None:
    """Low, value and high, rounded."""
    if interval is None:
        return None
    return [round(each, 3) for each in (interval.low, interval.value, interval.high)]
