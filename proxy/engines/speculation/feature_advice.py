"""Advice on speculation for one feature of a profile's calls, by their receipts; pure.

Receipts do not name the depth, so it is that of the profile's present setting. Speeds with and
without come from calls of the same feature and days, such as those that control replicas answered.
"""

from dataclasses import dataclass, field
from typing import Final

from proxy.engines.metrics.decode_speed import EstimateInterval, SpeedSums, speed_ratio
from proxy.engines.speculation.advice import SpeculationAdvice, SpeculationOption, recommend

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

    def measured_speed_up(self) -> EstimateInterval | None:
        """Speed with drafts ÷ speed without; None where calls of either are too few."""
        return speed_ratio(self.drafted.tokens_per_s(MIN_CALLS), self.plain.tokens_per_s(MIN_CALLS))


def advise_feature(
    feature: FeatureSpeculation, setting: SpeculationOption | None
) -> SpeculationAdvice:
    """The setting that ran with a feature's calls, and whether to take it.

    Args:
        feature: Its calls.
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
