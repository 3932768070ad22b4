from dataclasses import FrozenInstanceError, fields

import pytest

from proxy.engines.routing.policy import DEFAULT_POLICY, RoutingPolicy


def test_a_routing_policy_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        DEFAULT_POLICY.tie_s = 1.0  # type: ignore[misc]


def test_every_number_of_a_routing_policy_is_documented():
    documented = RoutingPolicy.__doc__ or ""

    assert [f.name for f in fields(RoutingPolicy) if f"    {f.name}: " not in documented] == []
