"""The ratio of a provider's token count to ours, learned from the usage that it reports.

Where our vocabulary is the provider's own, nothing is learned or scaled: see ``Estimates``.
"""

import re
from collections import OrderedDict
from typing import Final

#: Tokens, by our count, that a model without observations is assumed to have been seen with.
_PRIOR_TOKENS: Final = 500.0
#: Weight that earlier observations keep at each new one; some 50 calls decide.
_DECAY: Final = 0.98
#: An observation beyond these tells of something else than the tokenizer: images, hidden prompts.
_MIN_RATIO: Final = 0.25
_MAX_RATIO: Final = 4.0

_CLAUDE_MODEL: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
#: Source: Anthropic, what is new in 4.7, tokenizer (2026-08).
_NEWER_CLAUDE_RATIO: Final = 1.3


class TokenRatios:
    """A ratio for each model: tokens reported over tokens counted, recent calls counting most.

    Args:
        models: Most models remembered; the longest unused is forgotten.
    """

    def __init__(self, models: int = 1024) -> None:
        self._models = models
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def observe(self, model: str, counted: int, reported: int) -> None:
        """Learn from one call; one without tokens teaches nothing, one far off only a little."""
        if counted <= 0 or reported <= 0:
            return
        ours, theirs = self._sums.pop(model, _prior(model))
        bounded = min(max(float(reported), counted * _MIN_RATIO), counted * _MAX_RATIO)
        self._sums[model] = (ours * _DECAY + counted, theirs * _DECAY + bounded)
        if len(self._sums) > self._models:
            self._sums.popitem(last=False)

    def estimate(self, model: str, counted: int) -> int:
        """Estimate the tokens a provider reports for so many of ours."""
        ours, theirs = self._sums.get(model) or _prior(model)
        return round(counted * theirs / ours)


def initial_ratio(model: str) -> float:
    """The provider's tokens for each of ours, as far as the model's name tells."""
    match = _CLAUDE_MODEL.search(model)
    newer = match is not None and (int(match[1]), int(match[2] or 0)) >= (4, 7)
    return _NEWER_CLAUDE_RATIO if newer else 1.0


def _prior(model: str) -> tuple[float, float]:
    return _PRIOR_TOKENS, _PRIOR_TOKENS * initial_ratio(model)
