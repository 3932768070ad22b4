"""The ladder's models follow the requested routes, each once, where they can take the call."""

from typing import Any

import pytest

from proxy.calls.route_choice import RouteChoice, requested_routes
from proxy.services.objectives.fallback_order import FallbackOrder
from slo.objectives.objective import Enforce, Objective
from tests.fakes.objective_calls import CATALOG, chat
from tests.fakes.objective_replicas import objective, tracks

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {}}}]


def fallback_routes(
    *objectives: Objective, is_first: bool = True, **fields: Any
) -> tuple[list[RouteChoice], dict[str, str]]:
    """The routes behind the requested ones, and the models skipped."""
    call = chat(**fields)
    requested = requested_routes(call, CATALOG)
    order = FallbackOrder(CATALOG)
    choices, skipped = order.routes(
        call, requested, tracks(*objectives).values(), is_first=is_first
    )
    assert choices[: len(requested)] == requested
    return list(choices[len(requested) :]), skipped


def test_model_of_two_ladders_follows_once():
    behind, skipped = fallback_routes(objective(), objective(name="other"))

    assert [choice.route.name for choice in behind] == ["small/m"]
    assert skipped == {}


@pytest.mark.parametrize("is_first", [True, False])
def test_conversations_under_way_fall_back_as_a_last_resort(is_first):
    behind, _ = fallback_routes(objective(), is_first=is_first)

    assert [choice.is_last_resort for choice in behind] == [not is_first]


def test_objective_that_only_observes_adds_no_route():
    assert fallback_routes(objective(enforce=Enforce.OBSERVE)) == ([], {})


def test_model_that_lacks_what_the_call_needs_is_skipped_with_the_reason():
    behind, skipped = fallback_routes(objective(), tools=TOOLS)

    assert behind == []
    assert list(skipped) == ["small"]
    assert skipped["small"]
