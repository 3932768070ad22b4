"""What all tests share: Hypothesis finds the same examples every time, and no clock runs out."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "house", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
