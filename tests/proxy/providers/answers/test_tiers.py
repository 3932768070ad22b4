import pytest

from proxy.providers.answers.tiers import price_tier

STANDARD = ["", "auto", "default", "standard", "standard_only", "scale", "on_demand"]


@pytest.mark.parametrize("tier", [*STANDARD, None, 7, ["batch"]])
def test_whatever_standard_is_called_has_the_standard_price(tier):
    assert price_tier(tier) == ""


@pytest.mark.parametrize("tier", ["batch", "flex", "priority", "ultrafast", "brand_new"])
def test_every_other_tier_keeps_its_name_known_or_not(tier):
    assert price_tier(tier) == tier


def test_service_tier_fast_has_the_price_of_priority():
    assert price_tier("fast") == "priority"
