"""Calls, receipts and decisions of a router of objectives."""

import json
from typing import Any

from proxy.calls.route_choice import RoutingDecision, requested_routes
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.services.objectives.router import ObjectiveRouter
from slo.controller.state import ControllerSnapshot, ControllerState
from slo.objectives.objective import Objective
from slo.usage import Usage
from tests.fakes.call_dependencies import call
from tests.fakes.chaos import two_model_catalog
from tests.fakes.objective_replicas import START, tracks

CATALOG = two_model_catalog()
USER = {"role": "user", "content": "Hello"}
COUNT = iter(range(10**9))


def chat(*messages: Any, **fields: Any) -> Call:
    body = {"model": "m", "stream": True, "messages": messages or [USER], **fields}
    return call(json.dumps(body).encode(), id=f"call_{next(COUNT)}", arrived=START)


def objective_router(*objectives: Objective, keys: Any = CATALOG) -> ObjectiveRouter:
    return ObjectiveRouter(tracks(*objectives), keys)


def degraded_snapshot(level: int, share: float = 0.0) -> ControllerSnapshot:
    return ControllerSnapshot(state=ControllerState.DEGRADED, level=level, since=0.0, share=share)


def decide(
    router: ObjectiveRouter, asking: Call | None = None, keys: Any = CATALOG
) -> RoutingDecision:
    asking = asking or chat()
    return router.decide(asking, requested_routes(asking, keys))


def receipt(asking: Call, **fields: Any) -> Receipt:
    values: dict[str, Any] = {
        "call_id": asking.id,
        "started": START,
        "team": "team_1",
        "key_id": "key_1",
        "endpoint": asking.endpoint,
        "route": "one/m",
        "status": 200,
        "outcome": Outcome.ANSWERED,
        "duration": 1.0,
        "ttft": 0.2,
        "usage": Usage(input=10, output=2),
        "cost_nanos": 100,
    }
    return Receipt(**{**values, **fields})


def counts_by_arm(router: ObjectiveRouter) -> dict[str, tuple[int, int]]:
    """Return what was counted, by arm."""
    return {key: count for (key, _), count in router.tally.drain().items()}
