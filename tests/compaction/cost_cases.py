"""Prices and conversations by which the cost model is tested."""

from msgspec.structs import replace

from compaction.cost_model import (
    CostInputs,
)
from compaction.policy import RelativePrices

CLAUDE = RelativePrices(read=0.1, write=1.25)
UNCACHED = RelativePrices()

#: 12,000 tokens that come down to 3,000.
FIELD = CostInputs(
    calls=20,
    calls_since=20,
    fixed=1_000,
    earlier_segments=0,
    region=9_600,
    segment=600,
    tail=1_400,
    growth=600,
)

#: Old enough that any compaction that saves something is expected to pay.
OLD = replace(FIELD, calls=1_000, calls_since=1_000)
