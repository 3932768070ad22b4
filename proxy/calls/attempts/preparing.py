"""The steps of an attempt before it is sent: convert → compact → plan → translate → reserve."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import msgspec

from proxy.calls.attempts.attempt import AnswerBeginning, Attempt
from proxy.calls.attempts.steps import (
    CompactedAttempt,
    PlannedAttempt,
    ReservedAttempt,
    StartedAttempt,
    TranslatedAttempt,
)
from proxy.calls.eligibility.output_limits import (
    lowered_limit,
    output_allowance,
    prepared_endpoint,
    with_output_limit,
)
from proxy.calls.eligibility.requirements import missing_capability
from proxy.calls.metering.recall_tally import RecallTally
from proxy.calls.metering.settlement import AttemptInfo
from proxy.calls.ports import CallContext, CheaperRoute
from proxy.calls.route_choice import skipped_header, untranslatable_call
from proxy.calls.translation.converted_calls import CONVERTED_ENDPOINTS, convert_call
from proxy.calls.translation.translation import needs_thread, prepare
from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.prefix.planned import Passthrough, Planned
from proxy.providers.continuations.continuation_requests import continuing_request, with_beginning
from proxy.providers.port import PreparedRequest
from proxy.providers.scheduling_hints import CallHints
from proxy.records.call import Call
from proxy.records.compaction_result import NO_COMPACTION, CompactionResult, passthrough_result
from proxy.tokens.text_size import text_tokens

T = TypeVar("T")
_RESENT_UNMODIFIED: Final = Passthrough("the planned prompt was refused, so it was sent unmodified")


async def convert(attempt: Attempt) -> StartedAttempt:
    """Say the call in the API of the route's upstream.

    Raises:
        CallerError: If it cannot be said to the upstream of the model that was asked for.
        UpstreamError: If it cannot be said to a substitute's.
    """
    step, call = attempt.step, attempt.context.call
    if call.endpoint not in CONVERTED_ENDPOINTS:
        return step
    translated = await _run_translation(attempt, partial(convert_call, call, attempt.choice.route))
    info = msgspec.structs.replace(step.info, translated=translated)
    return attempt.reach(StartedAttempt(info=info))


async def compact(attempt: Attempt, step: StartedAttempt) -> CompactedAttempt:
    """Have the prompt compacted where its feature asks for that; a header tells the caller."""
    info = step.info
    result = await _compaction_result(attempt, info)
    if result is not NO_COMPACTION:
        headers = dict(info.headers)
        if result.header:
            headers["x-thriftgate-compaction"] = result.header
        info = msgspec.structs.replace(info, compaction=result, headers=headers)
    return attempt.reach(CompactedAttempt(info=info))


async def plan(attempt: Attempt, step: CompactedAttempt) -> PlannedAttempt:
    """Have the prompt arranged for the route's cache, unless that was refused before."""
    planned: Planned | Passthrough = _RESENT_UNMODIFIED
    if not attempt.options.is_resent:
        planning = attempt.context.deps.planning
        planned = await planning.plan(step.info.sent_call, attempt.choice.route)
    return attempt.reach(PlannedAttempt(info=step.info, plan=planned))


async def translate(attempt: Attempt, step: PlannedAttempt) -> TranslatedAttempt:
    """Make the request for the route's upstream.

    Raises:
        CallerError: If it cannot be said to the upstream of the model that was asked for.
        UpstreamError: If it cannot be said to a substitute's.
    """
    info = step.info
    recalls = info.compaction.removed is not None
    if attempt.options.beginning is not None:
        info, request = await _continuing_request(attempt, step, attempt.options.beginning)
    else:
        request = await _prepared_request(attempt, info.sent_call, step.plan)
    if info.translated is not None:
        request = info.translated.with_reader(request, recalls=recalls)
    notes = info.notes + request.notes + info.compaction.notes
    recall = RecallTally() if recalls else None
    info = msgspec.structs.replace(info, notes=notes, planned=step.plan, recall=recall)
    return attempt.reach(TranslatedAttempt(info=info, plan=step.plan, request=request))


async def prepare_round(
    attempt: Attempt, step: ReservedAttempt, append: Callable[[bytes], bytes]
) -> PreparedRequest:
    """The request of a further round: the first one's prompt goes on, within the same limits.

    Args:
        append: Appends what was said and recalled in the rounds so far to a body.

    Raises:
        CallerError: If it cannot be said to the route's upstream.
        UpstreamError: If it cannot be said to a substitute's.
    """
    request = await _prepared_request(attempt, *_append_to_prompt(step, append))
    lowered = lowered_limit("\n".join(step.info.notes))
    if lowered is None:
        return request
    return with_output_limit(request, attempt.choice.route, lowered)


def _append_to_prompt(
    step: PlannedAttempt, append: Callable[[bytes], bytes]
) -> tuple[Call, Planned | Passthrough]:
    """The call and its plan, with more at the end of the body that is sent."""
    call, plan = step.info.sent_call, step.plan
    if isinstance(plan, Planned):
        return call, msgspec.structs.replace(plan, body=append(plan.body))
    return msgspec.structs.replace(call, body=append(call.body)), plan


async def _continuing_request(
    attempt: Attempt, step: PlannedAttempt, beginning: AnswerBeginning
) -> tuple[AttemptInfo, PreparedRequest]:
    """The request that goes on from the beginning of an answer, and the attempt's facts with it.

    It is planned as the caller's own prompt. Its answer has what is left of the output limit.

    Raises:
        CallerError: If its route cannot go on from there.
    """
    call, route, text = step.info.sent_call, attempt.choice.route, beginning.text
    append = partial(with_beginning, endpoint=call.endpoint, text=text)
    continued = msgspec.structs.replace(call, body=append(call.body))
    request = await _prepared_request(attempt, *_append_to_prompt(step, append), in_chat=True)
    request = continuing_request(request, route.continues)
    limit = output_allowance(request.body, prepared_endpoint(request), route)
    if limit.requested:
        left = limit.requested - text_tokens(text.encode(), has_parts=False)
        request = with_output_limit(request, route, max(left, limit.minimum))
    notes = (*step.info.notes, beginning.note)
    return msgspec.structs.replace(step.info, continued=continued, notes=notes), request


async def _prepared_request(
    attempt: Attempt, call: Call, plan: Planned | Passthrough, *, in_chat: bool = False
) -> PreparedRequest:
    """The request in the words of the route's upstream; its answer is chat where the call is.

    Args:
        in_chat: True to send a Responses call in chat, whatever its upstream has.
    """
    route, converted = attempt.choice.route, attempt.info.translated
    if in_chat and route.upstream.serves_responses:
        route = replace(route, upstream=replace(route.upstream, serves_responses=False))
    adapts = converted is not None and converted.adapts
    work = partial(
        prepare,
        call,
        route,
        plan,
        is_substitute=_is_substitute(attempt) or attempt.choice.is_alias or adapts,
        reasoning=attempt.choice.reasoning if adapts else "",
        hints=call_hints(attempt.context, call, route),
    )
    return await _run_translation(attempt, work)


async def reserve(attempt: Attempt, step: TranslatedAttempt) -> ReservedAttempt | CheaperRoute:
    """Reserve the request in its budgets, within its ceilings; or name the model it fits on.

    Raises:
        CallerError: If it fits nowhere.
        Unready: If it is unknown whether it fits.
    """
    info, request, limits = step.info, step.request, attempt.context.deps.limits
    headers, notes = dict(info.headers), info.notes
    if limits is not None:
        sent_info = msgspec.structs.replace(info, call=info.sent_call)
        admitted = await limits.admit(sent_info, request, partial(_can_serve, attempt))
        if isinstance(admitted, CheaperRoute):
            return admitted
        request = admitted.prepared
        headers |= admitted.headers
        notes += admitted.notes
    if attempt.options.skipped:
        headers |= skipped_header(attempt.options.skipped)
    info = msgspec.structs.replace(info, headers=headers, notes=notes)
    return attempt.reach(ReservedAttempt(info=info, plan=step.plan, request=request))


def _can_serve(attempt: Attempt, model: str) -> bool:
    """True if a model can answer the call."""
    candidate = attempt.context.deps.catalog.models.get(model)
    if candidate is None or not attempt.options.may_switch_model:
        return False
    why = missing_capability(attempt.context.call, candidate, attempt.choice.route.upstream.region)
    if why:
        attempt.options.skipped[model] = why
    return not why


def _is_substitute(attempt: Attempt) -> bool:
    """True if the model answers in place of the one that the call names."""
    if not attempt.choice.reroute_reason:
        return False
    own = attempt.context.deps.catalog.find(attempt.context.call.model)
    return own is None or own.id != attempt.choice.model


async def _compaction_result(attempt: Attempt, info: AttemptInfo) -> CompactionResult:
    """The compaction of the prompt; none where the attempt before went without it."""
    compaction, refused = attempt.context.deps.compaction, attempt.options.refused_compaction
    if compaction is None or not compaction.has_part(attempt.context.call):
        return NO_COMPACTION
    if refused is not None:
        result = passthrough_result(refused.mode, refused.why)
        return await compaction.track_unmodified(info.asked_call, result)
    if attempt.options.is_resent:
        return NO_COMPACTION
    return await compaction.compact(info.asked_call, attempt.choice.route)


async def _run_translation(attempt: Attempt, work: Callable[[], T]) -> T:
    """A translation of the call, made on a thread where it is long.

    Raises:
        CallerError: As the translation does, for the model that was asked for.
        UpstreamError: As it does, for a substitute.
    """
    is_long = needs_thread(attempt.context.call, attempt.choice.route)
    try:
        return await asyncio.to_thread(work) if is_long else work()
    except CallerError as error:
        if attempt.info.translated is not None:
            error = attempt.info.translated.translate_error(error)
        raise (untranslatable_call(error) if _is_substitute(attempt) else error) from None


#: Text whose pseudonym stands for the team itself.
_FAIRNESS: Final = b"fairness"


def call_hints(context: CallContext, call: Call, route: Route) -> CallHints | None:
    """The hints of a call that is about to be sent; None for upstreams that take none."""
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
    limits = (_remaining_s(target.ttft, elapsed), target.queue_and_prefill)
    first = min((limit for limit in limits if limit is not None), default=None)
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
