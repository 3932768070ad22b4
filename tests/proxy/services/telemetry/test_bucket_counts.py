from hypothesis import given
from hypothesis import strategies as st

from proxy.services.telemetry.bucket_counts import BucketCounts


@given(st.lists(st.floats(0, 10)))
def test_buckets_hold_all_values_up_to_their_bound(values: list[float]) -> None:
    counts = BucketCounts((1.0, 5.0))
    for value in values:
        counts.add(value)

    assert counts.buckets() == [
        ("1.0", sum(value <= 1 for value in values)),
        ("5.0", sum(value <= 5 for value in values)),
        ("+Inf", len(values)),
    ]
    assert counts.total == sum(values)
