"""Rate limits as buckets."""

import pytest

from proxy.tools.simulator.limits import RateAllowance, headers


def test_a_bucket_gives_what_it_holds_and_fills_evenly() -> None:
    bucket = RateAllowance(60, now=0)

    assert bucket.take(60, now=0) == 0
    assert bucket.take(1, now=0) == 1
    assert bucket.take(1, now=1) == 0
    assert bucket.remaining == 0
    assert bucket.full_in == 60
    assert bucket.take(61, now=1000) == 1
    assert bucket.remaining == 60


@pytest.mark.parametrize(
    ("requests_taken", "span"),
    [(0, "0ms"), (10, "100ms"), (150, "1.5s"), (6000, "1m0s"), (5999, "59.99s")],
)
def test_openai_says_its_limits_in_spans(requests_taken: int, span: str) -> None:
    requests, tokens = RateAllowance(6000, 0), RateAllowance(100, 0)
    requests.take(requests_taken, 0)
    limit_headers = dict(headers("openai", requests, tokens, 0))

    assert limit_headers["x-ratelimit-limit-requests"] == "6000"
    assert limit_headers["x-ratelimit-remaining-requests"] == str(6000 - requests_taken)
    assert limit_headers["x-ratelimit-reset-requests"] == span
    assert limit_headers["x-ratelimit-limit-tokens"] == "100"


def test_anthropic_says_its_limits_in_moments() -> None:
    requests, tokens = RateAllowance(60, 0), RateAllowance(100, 0)
    requests.take(30, 0)
    limit_headers = dict(headers("anthropic", requests, tokens, 0))

    assert limit_headers["anthropic-ratelimit-requests-reset"] == "1970-01-01T00:00:30Z"
    assert limit_headers["anthropic-ratelimit-input-tokens-remaining"] == "100"
    assert limit_headers["anthropic-ratelimit-tokens-limit"] == "100"
