import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.usage import Usage

BUCKETS = Usage.__struct_fields__
PROMPT = {"input", "cache_read", "write_5m", "write_30m", "write_1h", "write_12h"}
usages = st.fixed_dictionaries({}, optional=dict.fromkeys(BUCKETS, st.integers(0, 10**12)))


@given(usages)
def test_every_token_stands_in_one_bucket_of_prompt_or_answer(buckets):
    usage = Usage(**buckets)

    assert usage.prompt_tokens + usage.generated_tokens == sum(buckets.values())


@pytest.mark.parametrize("bucket", BUCKETS)
def test_each_bucket_counts_where_its_name_says(bucket):
    usage = Usage(**{bucket: 7})

    assert usage.prompt_tokens == (7 if bucket in PROMPT else 0)
    assert usage.cache_write_tokens == (7 if bucket.startswith("write_") else 0)
    assert usage.generated_tokens == (0 if bucket in PROMPT else 7)


@given(usages)
def test_a_usage_survives_being_written_down_and_zeros_cost_no_bytes(buckets):
    written = msgspec.json.encode(Usage(**buckets))

    assert msgspec.json.decode(written, type=Usage) == Usage(**buckets)
    assert msgspec.json.decode(written) == {name: n for name, n in buckets.items() if n}


def test_a_usage_cannot_be_changed():
    with pytest.raises(AttributeError):
        Usage().input = 1  # type: ignore[misc]
