"""Answers ``count_tokens`` of Anthropic's API for models whose upstream has no such call.

The prompt is counted as it would be sent, by the vocabulary of the route's model where that is
published, else by o200k. It costs nothing; its receipt says so by having no usage.
"""

import asyncio
from typing import Final

import msgspec

from proxy.calls.attempts.failed_attempts import record_refusal
from proxy.calls.enabled_routes import enabled_choices
from proxy.calls.metering.attempt_receipts import build_receipt
from proxy.calls.metering.settlement import AttemptInfo, AttemptOutcome
from proxy.calls.ports import Caller, Dependencies, Head
from proxy.calls.residency import bind_call
from proxy.calls.route_choice import RouteChoice, requested_routes
from proxy.catalog.entries import Route
from proxy.errors import ProxyError
from proxy.providers.messages.request import prompt_tokens
from proxy.providers.messages.target import chat_target
from proxy.records.call import Call
from proxy.records.receipt import Outcome
from proxy.records.timeline import Timeline
from proxy.tokens.counter import TokenCounter

COUNT_TOKENS: Final = "messages/count_tokens"
_JSON: Final = {"content-type": "application/json"}


class LocalTokenCounts:
    """Counts prompts, one at a time and off the event loop."""

    def __init__(self) -> None:
        self._counter = TokenCounter()
        self._lock = asyncio.Lock()

    async def answer(
        self, call: Call, caller: Caller, deps: Dependencies, timeline: Timeline
    ) -> bool:
        """Answer the call, if its model's upstream counts no tokens; True if it is answered.

        Raises:
            ProxyError: If the prompt cannot be sent to the model; the receipt is kept.
        """
        if call.endpoint != COUNT_TOKENS or call.method != "POST":
            return False
        choice = _first_choice(call, deps)
        if choice is None or choice.route.upstream.speaks_messages:
            return False
        try:
            tokens = await self._count(call, choice.route)
        except ProxyError as refusal:
            record_refusal(call, refusal, deps, timeline)
            raise
        end = AttemptOutcome(outcome=Outcome.ANSWERED, status=200)
        attempt = AttemptInfo(call=call, route=choice.route)
        receipt = build_receipt(attempt, end, timeline, deps.pseudonymizer)
        deps.ledger.keep(receipt)
        body = msgspec.json.encode({"input_tokens": tokens})
        await caller.send_whole(Head(200, _JSON, choice.model, ()), body, receipt)
        return True

    async def _count(self, call: Call, route: Route) -> int:
        target = chat_target(route, drops_server_tools=route.upstream.drops_server_tools)
        async with self._lock:
            return await asyncio.to_thread(
                prompt_tokens, call.body, target, self._counter, route.model or call.model
            )


def _first_choice(call: Call, deps: Dependencies) -> RouteChoice | None:
    """The first route of the call's model; None where it names none that is known.

    The pipeline then refuses the call, in its own words.
    """
    try:
        bound = bind_call(call, deps.residency)
        choices = requested_routes(bound, deps.catalog)
        return enabled_choices(bound, deps.catalog, choices)[0]
    except ProxyError:
        return None
