"""Strangers without a key grow no memory, and good calls beside them stay fast."""

import sys

import pytest

from tests.bench.strangers import ATTACKS, run_attack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads resident memory")
#: Growth of resident memory that is none: what a gateway takes once, for answers and sockets.
_MAX_GROWTH_MB = 20.0
#: Of the median of good calls, on a machine that has other work; attacks cost processor time.
_MAX_P50_MS = 1000.0


@pytest.mark.parametrize("attack", ATTACKS)
def test_strangers_grow_no_memory_and_good_calls_beside_them_are_answered(attack: str) -> None:
    row = run_attack(attack)

    assert row.sent_mb > 1
    assert row.grown_mb <= _MAX_GROWTH_MB
    assert row.p50_ms <= _MAX_P50_MS
