import pytest

from proxy.providers.answers.tiers import price_tier

STANDARD = ["", "auto", "default", "standard", "standard_only", "scale", "on_demand"]


@pytest.mark.parametrize("said", [*STANDARD, None, 7, ["batch"]])
def test_whatever_standard_is_called_has_the_standard_price(said):
    assert price_tier(said) == ""


@pytest.mark.parametrize("said", ["batch", "flex", "priority", "ultrafast", "brand_new"])
def test_every_other_tier_keeps_its_name_known_or_not(said):
    assert price_tier(said) == said


def test_service_tier_fast_has_the_price_of_priority():
    assert price_tier("fast") == "priority"
