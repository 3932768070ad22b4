"""Advice on speculation for one feature of a profile's calls, by their receipts; pure.

Receipts name neither the depth nor how many sequences ran at once. So the depth is that of the
profile's present setting, and the load is that of the profile. Speeds with and without come from
calls of the same feature and days, such as those that control replicas answered.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from proxy.engines.decode_speed import (
    EstimateInterval,
    SpeedSums,
    combined_speed_up,
    speed_ratio,
)
from proxy.engines.speculation.advice import (
    SpeculationAdvice,
    SpeculationOption,
    option_by_formula,
    recommend,
)
from proxy.engines.speculation.evidence import (
    NO_SPECULATION,
    acceptance_by_rate,
)

#: Calls from which on a feature's acceptance, or a speed of it, is taken for one.
MIN_CALLS: Final = 20


@dataclass(slots=True)
class FeatureSpeculation:
    """The calls of one feature at a profile's replicas.

    Attributes:
        calls: Calls with drafts.
        draft_tokens: Tokens that were drafted for them.
        accepted_tokens: Those that the model accepted.
        drafted: Their speed.
        plain: The speed of the calls without drafts.
    """

    calls: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    drafted: SpeedSums = field(default_factory=SpeedSums)
    plain: SpeedSums = field(default_factory=SpeedSums)

    def add(self, drafts: tuple[int, int] | None, tokens: int, decode_s: float) -> None:
        """Add a call; one without output or decode time says nothing of a speed.

        Args:
            drafts: Its drafted and accepted tokens; None where there were none.
            tokens: Its output.
            decode_s: Seconds of its decode; 0 where unknown.
        """
        if drafts is not None:
            self.calls += 1
            self.draft_tokens += drafts[0]
            self.accepted_tokens += drafts[1]
        if tokens > 0 and decode_s > 0:
            (self.plain if drafts is None else self.drafted).add_output(tokens, decode_s)

    def measured_speed_up(self) -> EstimateInterval | None:
        """Speed with drafts ÷ speed without; None where calls of either are too few."""
        return speed_ratio(self.drafted.tokens_per_s(MIN_CALLS), self.plain.tokens_per_s(MIN_CALLS))


def advise_feature(
    found: FeatureSpeculation, setting: SpeculationOption | None, profile: SpeculationAdvice
) -> SpeculationAdvice:
    """The options of a feature, best first, and the one to take.

    Args:
        found: Its calls.
        setting: The profile's present setting, for its depth; None for none.
        profile: The advice for the whole profile, for the load.
    """
    if setting is None or setting.method is None or found.calls < MIN_CALLS:
        lacking = f"not enough data: {found.calls} of {MIN_CALLS} calls with drafts"
        reason = lacking if found.calls < MIN_CALLS else "the setting that runs is not known"
        return replace(profile, options=(), recommended="", reason=reason)
    ran = SpeculationOption(
        setting=setting.setting,
        method=setting.method,
        depth=setting.depth,
        drafts=found.draft_tokens / setting.depth,
        acceptance=acceptance_by_rate(found.accepted_tokens, found.draft_tokens, setting.depth),
        measured=found.measured_speed_up(),
    )
    if ran.acceptance is not None:
        ran = option_by_formula(ran, profile.concurrency, profile.saturation)
    options = [ran, SpeculationOption(setting=NO_SPECULATION)]
    if ran.measured is not None and ran.measured.value < 1.0:
        options.reverse()
    recommended, reason = recommend(options)
    return replace(profile, options=tuple(options), recommended=recommended, reason=reason)


def features_speed_up(features: Iterable[FeatureSpeculation]) -> EstimateInterval | None:
    """The speed-up over all features that were measured both ways; None without any."""
    parts = []
    for feature in features:
        speed, base = feature.drafted.tokens_per_s(MIN_CALLS), feature.plain.tokens_per_s(MIN_CALLS)
        if speed is not None and base is not None:
            parts.append((feature.drafted.tokens, speed, base))
    return combined_speed_up(parts)
