"""The setting that a profile with ``speculative = "auto"`` starts with, without flapping; pure."""

from dataclasses import replace
from typing import Final

import msgspec

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.metrics.decode_speed import EstimateInterval
from proxy.engines.metrics.kv_pressure import KVSums
from proxy.engines.profiles import EngineProfile, Speculation, SpeculativeMethod
from proxy.engines.speculation.advice import (
    MIN_COVERED_SHARE,
    SpeculationAdvice,
    SpeculationOption,
    advise,
    gain_text,
    parse_setting,
    setting_name,
)
from proxy.engines.speculation.evidence import (
    NO_SPECULATION,
    SpeculationEvidence,
)

#: A new setting has to be better by so much than the present one, at its low end.
MIN_ADVANTAGE: Final = 1.05
#: Seconds after which a method that did not pay is tried again: traffic changes.
RETRY_S: Final = 14 * 86_400.0
#: Draft tokens per step with which a method is tried first, and those of methods that differ:
#: most models have one layer for multi-token prediction, and suffix trees draft long runs.
_FIRST_DEPTH: Final = 3
_FIRST_DEPTHS: Final = {SpeculativeMethod.MTP: 1, SpeculativeMethod.SUFFIX: 8}


class SpeculationChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The setting that is applied, with its reason and the figures that led to it.

    Attributes:
        setting: Its name; "none" for no speculation.
        since: Time at which it was first applied, in seconds since the epoch.
        gain: Low end, value and high end of its speed-up when it was chosen; () if unknown.
    """

    setting: str
    reason: str
    since: float
    gain: tuple[float, ...] = ()


class MeasuredModel(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a profile that evidence depends on; "" where it has none.

    Attributes:
        draft: The draft model; the last one where the profile does without one for a while.
    """

    model: str
    draft: str
    kv_dtype: str
    gpu: str

    def has_weights(self, model: str, draft: str) -> bool:
        """True if these are its model and draft model; no draft model goes with any."""
        return model == self.model and (draft == self.draft or not (draft and self.draft))

    def covers(self, other: "MeasuredModel") -> bool:
        """True if evidence of this one holds for the other, too, but for the KV format."""
        return self.gpu == other.gpu and self.has_weights(other.model, other.draft)


class SpeculationRecord(msgspec.Struct, kw_only=True):
    """All that is kept of a profile's speculation, and of the pressure on its KV cache.

    Attributes:
        kv_sums: The pressure by number format of the KV cache.
        measured: The model that all of it was measured on; None where that is not known.
    """

    evidence: SpeculationEvidence = msgspec.field(default_factory=SpeculationEvidence)
    choice: SpeculationChoice | None = None
    kv_sums: dict[str, KVSums] = {}
    measured: MeasuredModel | None = None
    version: int = 1

    def clear_if_other(self, profile: EngineProfile) -> None:
        """Forget it if the profile has another model; of an unknown model it is kept.

        With another KV format alone, sums on the KV cache stay: they are kept by format.
        """
        now = measured_model(profile)
        before = self.measured or now
        covers = before.covers(now)
        if not covers or before.kv_dtype != now.kv_dtype:
            self.evidence, self.choice = SpeculationEvidence(), None
        if not covers:
            self.kv_sums = {}
        elif not now.draft:
            now = msgspec.structs.replace(now, draft=before.draft)
        self.measured = now


def measured_model(profile: EngineProfile) -> MeasuredModel:
    """The fields of a profile that evidence depends on."""
    speculation = profile.auto_speculation or profile.speculation
    return MeasuredModel(
        model=profile.model or profile.served_name,
        draft=speculation.draft if speculation else "",
        kv_dtype=str(profile.kv_dtype),
        gpu=profile.gpu,
    )


def choose_setting(
    profile: EngineProfile, record: SpeculationRecord, now: float
) -> SpeculationChoice:
    """The setting for the next start of replicas; the present one unless another is clearly better.

    The order: what the profile permits; the present setting while data are few; no speculation
    where that was never measured or the present setting does not pay; another setting whose low
    end is above the present one's value.
    """
    permitted = permitted_methods(profile)
    advice = advise(profile, record.evidence)
    present = record.choice
    if present is None or not _is_permitted(present.setting, permitted):
        return _first_choice(permitted, advice, now)
    if present.setting == NO_SPECULATION:
        return _after_none(permitted, record, advice, now)
    current = advice.option(present.setting)
    gain = current.measured if current else None
    if gain is None and current is not None and _lacks_baseline(profile, current):
        why = f"{present.setting} is measured; without speculation comes next, to compare"
        return SpeculationChoice(setting=NO_SPECULATION, reason=why, since=now)
    return _keep_or_change(present, gain, _best(permitted, advice), now)


def _lacks_baseline(profile: EngineProfile, option: SpeculationOption) -> bool:
    """True if a setting's speed is known where most tokens are made, and none without it."""
    lacking = (band.share for band in option.bands if band.tokens_per_s and not band.without)
    return not profile.control_replicas and sum(lacking) >= MIN_COVERED_SHARE


def _keep_or_change(
    present: SpeculationChoice,
    gain: EstimateInterval | None,
    best: SpeculationOption | None,
    now: float,
) -> SpeculationChoice:
    """The present setting, unless it does not pay or another one is clearly better."""
    if gain is None:
        return present
    if gain.high <= 1.0:
        why = f"{present.setting} did not pay: {gain_text(gain)}"
        return SpeculationChoice(setting=NO_SPECULATION, reason=why, since=now, gain=_ends(gain))
    is_other = best is not None and best.setting != present.setting
    if is_other and best and best.measured and best.measured.low >= gain.value * MIN_ADVANTAGE:
        return _choice_of(best, f"better than {present.setting} with {gain_text(gain)}", now)
    return msgspec.structs.replace(present, gain=_ends(gain))


def apply_choice(profile: EngineProfile, choice: SpeculationChoice) -> EngineProfile:
    """The profile with the chosen setting in place of ``auto``."""
    method, depth = parse_setting(choice.setting)
    auto = profile.auto_speculation
    if auto is None or method is None:
        return profile if auto is None else replace(profile, speculation=None)
    chosen = Speculation(
        method=method,
        draft=auto.draft if method.needs_draft else "",
        tokens=depth,
        ngram_min=auto.ngram_min,
        ngram_max=auto.ngram_max,
    )
    return replace(profile, speculation=chosen)


def permitted_methods(profile: EngineProfile) -> tuple[SpeculativeMethod, ...]:
    """Methods that ``auto`` may take, the one to try first in front.

    Where the profile lists none, a draft that it gives is a draft model; without one only n-grams
    need nothing more.
    """
    auto = profile.auto_speculation
    supported = ADAPTERS[profile.engine].speculative_methods
    methods = auto.methods if auto else ()
    if not methods:
        drafted = (SpeculativeMethod.DRAFT_MODEL,) if auto and auto.draft else ()
        methods = (*drafted, SpeculativeMethod.NGRAM)
    return tuple(method for method in methods if method in supported)


def _first_choice(
    permitted: tuple[SpeculativeMethod, ...], advice: SpeculationAdvice, now: float
) -> SpeculationChoice:
    best = _best(permitted, advice)
    if best is not None and best.measured is not None and best.measured.low > 1.0:
        return _choice_of(best, "the best by earlier evidence", now)
    if not permitted:
        why = "the engine has no method that this profile permits"
        return SpeculationChoice(setting=NO_SPECULATION, reason=why, since=now)
    setting = _first_setting(permitted[0])
    why = f"not enough data: {setting} is tried first"
    return SpeculationChoice(setting=setting, reason=why, since=now)


def _after_none(
    permitted: tuple[SpeculativeMethod, ...],
    record: SpeculationRecord,
    advice: SpeculationAdvice,
    now: float,
) -> SpeculationChoice:
    """The choice after a time without speculation: the best that pays, or one that is untried."""
    present = record.choice
    assert present is not None  # noqa: S101 - it is that of no speculation
    best = _best(permitted, advice)
    if best is not None and best.measured is not None and best.measured.low > 1.0:
        return _choice_of(best, "measured to pay", now)
    plain = record.evidence.settings.get(NO_SPECULATION)
    is_measured = plain is not None and any(band.tokens_per_s() for band in plain.bands.values())
    tried = {option.method for option in advice.options}
    untried = [method for method in permitted if method not in tried]
    if untried and is_measured:
        setting = _first_setting(untried[0])
        why = f"{present.reason}; {setting} was not tried yet"
        return SpeculationChoice(setting=setting, reason=why, since=now)
    if best is None or now - present.since < RETRY_S:
        return present
    return _choice_of(
        best, f"tried again after {RETRY_S / 86_400:.0f} days without speculation", now
    )


def _first_setting(method: SpeculativeMethod) -> str:
    depth = _FIRST_DEPTHS.get(method, _FIRST_DEPTH)
    return setting_name(Speculation(method=method, tokens=depth))


def _best(
    permitted: tuple[SpeculativeMethod, ...], advice: SpeculationAdvice
) -> SpeculationOption | None:
    """The permitted option with the highest low end, as measured; None where none was."""
    measured = [
        (option.measured.low, option)
        for option in advice.options
        if option.method in permitted and option.measured is not None
    ]
    return max(measured, key=lambda pair: pair[0])[1] if measured else None


def _choice_of(option: SpeculationOption, why: str, now: float) -> SpeculationChoice:
    gain = option.measured
    text = f"{option.setting} gives {gain_text(gain)}: {why}" if gain else why
    return SpeculationChoice(
        setting=option.setting, reason=text, since=now, gain=_ends(gain) if gain else ()
    )


def _is_permitted(setting: str, permitted: tuple[SpeculativeMethod, ...]) -> bool:
    method, _ = parse_setting(setting)
    return setting == NO_SPECULATION or method in permitted


def _ends(gain: EstimateInterval) -> tuple[float, ...]:
    return round(gain.low, 3), round(gain.value, 3), round(gain.high, 3)
