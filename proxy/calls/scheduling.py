"""Builds the hints that an engine's scheduler gets: the call's time left, team, expected length."""

from typing import Final

from proxy.calls.eligibility.output_limits import output_allowance
from proxy.calls.ports import CallContext
from proxy.catalog.entries import Route
from proxy.providers.scheduling_hints import CallHints
from proxy.records.call import Call

#: Text whose pseudonym stands for the team itself.
_FAIRNESS: Final = b"fairness"


def call_hints(context: CallContext, call: Call, route: Route) -> CallHints | None:
    """The hints of a call that is about to be sent; None for upstreams that take none.

    Args:
        call: The call as it is sent there.
        route: Route of the attempt.
    """
    if not route.upstream.hints or call.fields is None or call.method != "POST":
        return None
    deps, timeline = context.deps, context.timeline
    output = _expected_output(context, call, route)
    fairness = deps.pseudonymizer.pseudonym(call.key.team, _FAIRNESS)
    hints = CallHints(fairness_id=fairness, output_tokens=output, is_background=call.is_unattended)
    if call.is_unattended or deps.latency_target is None:
        return hints
    target = deps.latency_target(call)
    if target is None:
        return hints
    elapsed = timeline.now() - timeline.started
    first = _least(_remaining_s(target.ttft, elapsed), target.queue_and_prefill)
    whole = _remaining_s(target.total, elapsed)
    return CallHints(
        first_token_s=first,
        token_s=target.decode / output if target.decode and output else None,
        wait_s=first if first is not None else whole,
        objective=target.objective,
        fairness_id=fairness,
        output_tokens=output,
    )


def _expected_output(context: CallContext, call: Call, route: Route) -> int | None:
    """Output tokens that such answers usually stay below, within what the call itself asks for."""
    usual = context.deps.estimator.usual_output(call, route)
    limit = output_allowance(call.body, call.endpoint, route).requested
    return min(usual or limit, limit or usual or 0) or None


def _remaining_s(limit: float | None, elapsed: float) -> float | None:
    """Seconds that are left of a limit; None where there is none."""
    return None if limit is None else max(0.0, limit - elapsed)


def _least(*limits: float | None) -> float | None:
    """The tightest of some limits; None where there is none."""
    return min((limit for limit in limits if limit is not None), default=None)
