"""True if moving a conversation to another model saves money although its cache there is cold."""

from typing import Final

from proxy.catalog.entries import Route
from proxy.records.call import Call
from slo.ladder import is_switch_worthwhile
from slo.price import STANDARD_TERMS, call_cost
from slo.usage import Usage

#: Bytes of a prompt that are about a token.
_BYTES_PER_TOKEN: Final = 4
#: Tokens of an answer where nobody knows: half of all are shorter in what was measured.
_TYPICAL_OUTPUT_TOKENS: Final = 250


def is_worth_switching(call: Call, here: Route, there: Route) -> bool:
    """True if already the conversation's next call is cheaper there, read anew, than here, read.

    How many calls it still has nobody knows, so no later one counts. Unknown prices never pay.
    """
    tokens = len(call.body) // _BYTES_PER_TOKEN
    warm = Usage(cache_read=tokens, output=_TYPICAL_OUTPUT_TOKENS)
    cold = Usage(input=tokens, output=_TYPICAL_OUTPUT_TOKENS)
    return is_switch_worthwhile(_nanos(here, warm, call.arrived), _nanos(there, cold, call.arrived))


def _nanos(route: Route, usage: Usage, at: float) -> int | None:
    if route.tariff is None:
        return None
    paid = call_cost(usage, route.tariff, at, STANDARD_TERMS)
    return None if paid is None else paid.effective_nanos
