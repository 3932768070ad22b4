import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.calls.eligibility.retry_policy import RetryPolicy
from proxy.errors import UpstreamError

PATIENCE = RetryPolicy(retries=3, max_pause_s=2.0)


def upstream_error(
    *, code: str = "upstream_error", wait: float | None = None, retryable: bool = True
) -> UpstreamError:
    return UpstreamError("", status=503, code=code, retryable=retryable, retry_after=wait)


def test_the_next_route_is_tried_at_once_and_the_last_one_after_growing_pauses():
    pauses = [PATIENCE.pause_before_retry(upstream_error(), number, 2) for number in range(6)]

    assert pauses == [0.0, 0.25, 0.5, 1.0, None, None]


def test_no_pause_is_longer_than_a_caller_may_be_kept():
    assert PATIENCE.pause_before_retry(upstream_error(wait=2.0), 0, 1) == 2.0
    assert PATIENCE.pause_before_retry(upstream_error(wait=0.0), 0, 1) == 0.0
    assert PATIENCE.pause_before_retry(upstream_error(wait=2.1), 0, 1) is None
    assert PATIENCE.pause_before_retry(upstream_error(wait=99.0), 0, 2) == 0.0
    assert RetryPolicy(retries=9).pause_before_retry(upstream_error(), 4, 1) is None


@pytest.mark.parametrize(
    "code",
    ["upstream_timeout", "upstream_unauthorized", "upstream_key_missing", "insufficient_quota"],
)
def test_a_permanent_failure_is_retried_on_another_route_or_not_at_all(code):
    assert PATIENCE.pause_before_retry(upstream_error(code=code), 0, 2) == 0.0
    assert PATIENCE.pause_before_retry(upstream_error(code=code), 1, 2) is None


def test_a_call_with_x_should_retry_false_is_retried_on_another_route_only():
    failure = upstream_error()
    failure.should_retry = False

    assert PATIENCE.pause_before_retry(failure, 0, 2) == 0.0
    assert PATIENCE.pause_before_retry(failure, 1, 2) is None


@given(
    st.builds(RetryPolicy, retries=st.integers(0, 10), max_pause_s=st.floats(0, 1e3)),
    st.integers(0, 30),
    st.integers(1, 10),
    st.none() | st.floats(0, 1e6),
    st.booleans(),
)
def test_attempts_and_pauses_are_bounded(patience, number, count, wait, retryable):
    pause = patience.pause_before_retry(
        upstream_error(wait=wait, retryable=retryable), number, count
    )

    if pause is not None:
        assert retryable
        assert 0.0 <= pause <= patience.max_pause_s
        assert number + 1 < count + patience.retries
