"""Conditions for planning a call; pure."""

from typing import Final

from proxy.catalog.entries import Route
from proxy.prefix.breakpoints.policies import needs_key
from proxy.prefix.layouts.declared_slots import FIELD, named_slots
from proxy.prefix.planned import Passthrough, PlanningRequest
from proxy.prefix.prompts.objects import Unplannable, may_hold_tags
from proxy.prefix.prompts.prompt import parse_prompt
from proxy.records.call import MESSAGES, Call

CHAT: Final = "chat/completions"
RESPONSES: Final = "responses"
#: Endpoints whose bodies are prompts that can be read.
PLANNABLE_ENDPOINTS: Final = frozenset({CHAT, RESPONSES, MESSAGES})
#: Bytes below which hardly any cache keeps a prompt.
MIN_PLANNED_BYTES: Final = 2 * 1024
#: Bytes above which a prompt is sent unmodified.
MAX_PLANNED_BYTES: Final = 2 * 1024 * 1024
#: Wrong slots of one small prompt that are named.
_MAX_NAMED_SLOTS: Final = 4
_MAX_REASON_CHARS: Final = 200
_FIELD: Final = FIELD.encode()
#: Codes in receipts of calls that nothing is planned of; ``commands.reasons`` has their words.
NO_PROMPT: Final = "no_prompt"
OTHER_WIRE: Final = "other_wire"
UNDER_2_KB: Final = "under_2_kb"


def skip_reason(call: Call, route: Route | None = None) -> Passthrough | None:
    """Reason that a call is not planned; None if it is.

    Args:
        route: Its route; None for where its endpoint is spoken.
    """
    size = len(call.body)
    if call.endpoint not in PLANNABLE_ENDPOINTS or call.method != "POST":
        return Passthrough(reason=NO_PROMPT)
    if route is not None and not speaks_endpoint(route, call.endpoint):
        return Passthrough(reason=OTHER_WIRE)
    # A key that only the longer calls of a conversation carried would part its cache.
    keyed = route is not None and needs_key(route.regime, route.upstream.provider)
    if size < MIN_PLANNED_BYTES and not keyed and not may_hold_tags(call.body):
        return Passthrough(_unused_slots_reason(call), UNDER_2_KB)
    return Passthrough("the prompt is too large to plan") if size > MAX_PLANNED_BYTES else None


def planning_request(call: Call) -> PlanningRequest:
    """The call as planning sees it."""
    return PlanningRequest(
        team=call.key.team,
        feature=call.feature,
        key=call.key.id,
        hint=call.conversation,
        session=call.session,
        slots=call.slots,
        body=call.body,
        shows=call.key.keeps_prompts,
        origin=call.origin,
        is_native=call.endpoint == MESSAGES,
        split=call.split,
    )


def _unused_slots_reason(call: Call) -> str:
    """Reason that the slots named beside a small prompt move nothing; "" for none named."""
    if not call.slots.strip() and call.body.find(_FIELD) < 0:
        return ""
    try:
        prompt = parse_prompt(call.body, is_native=call.endpoint == MESSAGES)
        slots = named_slots(prompt, call.slots)
    except Unplannable as why:
        return str(why)[:_MAX_REASON_CHARS]
    reason = "slots move nothing in a prompt under 2 KB, which no cache keeps"
    return "; ".join([*slots.notes[:_MAX_NAMED_SLOTS], *([reason] if slots.moves else [])])


def speaks_endpoint(route: Route, endpoint: str) -> bool:
    """True if a call goes there in its own format, with cache marks of that format."""
    upstream = route.upstream
    if endpoint == MESSAGES:
        return upstream.speaks_messages
    if endpoint != RESPONSES:
        return True
    there = upstream.kind == "openai" and upstream.serves_responses
    return there and route.regime != "anthropic-breakpoint"
