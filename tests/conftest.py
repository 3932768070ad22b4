"""What all tests share: Hypothesis finds the same examples every time, and no clock runs out.

Garbage is not collected while tests are, and what is there then is never looked through:
15,000 tests and all modules stay to the end, and to look through them takes a second each time.
"""

import gc

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import USUAL

pytest.register_assert_rewrite(
    "tests.fakes",
    "tests.proxy.services.planning.planning_fixtures",
    "tests.proxy.prefix.planning_requests",
    "tests.proxy.api.server_fixtures",
    "tests.proxy.api.served_calls",
)

#: The same examples each time, so more of them would find no more on the next run. Others, and
#: many: make test ARGS=--hypothesis-profile=thorough
settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    max_examples=USUAL,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", deadline=None, max_examples=20 * USUAL, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)  # looking takes 3 % of all time at the gateway's own 5,000
    gc.enable()
