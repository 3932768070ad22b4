"""What all tests share: Hypothesis finds the same examples every time, and no clock runs out."""

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite(
    "tests.fakes",
    "tests.proxy.services.planning.planning_fixtures",
    "tests.proxy.prefix.planning_requests",
    "tests.proxy.api.server_fixtures",
    "tests.proxy.api.served_calls",
)

settings.register_profile(
    "house", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
