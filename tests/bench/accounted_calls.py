"""A simulator's calls as the second accounting reads them: tokens from bodies, then dollars.

Source of what it judges by: ``tests.accounting``, which shares no code with the cache model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, Final

import orjson

from proxy.caches.port import Cache, CachedPrompt, Served
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import SimulatedExchange, cache_of
from slo.usage import Usage
from tests.accounting.accounts import AccountedCall, PromptBill, account
from tests.accounting.prices import Row, price_rows, prompt_dollars
from tests.accounting.rules import MODEL_RULES, RULES
from tests.accounting.wire import WirePrompt, chat_prompt, messages_prompt, responses_prompt

_PROMPTS: Final[Mapping[str, Callable[[dict[str, Any]], WirePrompt]]] = {
    "/responses": responses_prompt,
    "/messages": messages_prompt,
}
#: Prices of routes that are made up; the others are in the reference list.
_MADE_UP: Final[Row] = {
    "input": 1,
    "cached_input": "0.1",
    "cache_write": {"5m": "1.25", "30m": "1.25", "1h": 2},
}
#: Prices of the bench's day that the list does not have.
#: Source: docs.mistral.ai/inference/pricing, from 2026-10-29 on.
_LATER: Final[Mapping[str, Row]] = {
    "mistral-large-4": {"input": "0.7", "cached_input": "0.07"},
}


@dataclass(eq=False)
class _Moments:
    """A call that a simulator serves: its exchange, its moments, its answer's tokens."""

    exchange: SimulatedExchange
    prompt: CachedPrompt
    sent: float
    began: float = inf
    ended: float = inf
    answer: tuple[int, ...] = ()


class _RecordedCache:
    """A model's cache that notes the moments of each call."""

    def __init__(self, cache: Cache, recorder: "CallRecorder") -> None:
        self._cache = cache
        self._recorder = recorder
        self._open: dict[int, _Moments] = {}

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        served = self._cache.serve(prompt, now)
        call = _Moments(self._recorder.latest_exchange(), prompt, now)
        self._open[id(prompt)] = call
        self._recorder.calls.append(call)
        return served

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        self._cache.begin_answer(prompt, now)
        self._open[id(prompt)].began = now

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        self._cache.finish_answer(prompt, generated, now)
        call = self._open.pop(id(prompt))
        call.ended, call.answer = now, generated


@dataclass
class CallRecorder:
    """Records a simulator's calls, in the order of sending.

    Attributes:
        latest_exchange: The exchange that the simulator serves now.
    """

    latest_exchange: Callable[[], SimulatedExchange]
    calls: list[_Moments] = field(default_factory=list)

    def cache_of(self, model: SimulatedModel) -> Cache:
        """A new cache of the model's regime, recorded."""
        return _RecordedCache(cache_of(model), self)

    def judge(self, model: str) -> "JudgedCalls | None":
        """The second accounting of a model's calls; None where its prices are not there."""
        row = _price_row(model)
        if row is None:
            return None
        calls = [one for one in self.calls if orjson.loads(one.exchange.body)["model"] == model]
        bills = account(map(_read_call, calls), RULES[MODEL_RULES[model]])
        dollars, differing = [], 0
        for call, bill in zip(calls, bills, strict=True):
            usage = call.exchange.usage
            is_same = usage is not None and _bill(usage) == bill
            differing += not is_same
            paid = (
                Fraction()
                if usage is None or bill is None
                else prompt_dollars(bill, row, call.sent)
            )
            dollars.append(float(paid))
        return JudgedCalls(dollars, differing)


@dataclass(frozen=True)
class JudgedCalls:
    """Prompt dollars of each call, and calls that were billed other tokens than accounted."""

    dollars: list[float]
    differing: int


def _price_row(model: str) -> Row | None:
    rows = price_rows()
    if model.startswith(("azure-", "bedrock-")) or model.endswith(("-own", "-oss")):
        return _MADE_UP
    return _LATER.get(model, rows[model]) if rows else None


def _read_call(call: _Moments) -> AccountedCall:
    path = call.exchange.path.partition("?")[0]
    read = next((read for end, read in _PROMPTS.items() if path.endswith(end)), chat_prompt)
    prompt = read(orjson.loads(call.exchange.body))
    return AccountedCall(prompt, call.sent, call.began, call.ended, call.answer)


def _bill(usage: Usage) -> PromptBill:
    written = {ttl: getattr(usage, f"write_{ttl}") for ttl in ("5m", "30m", "1h", "12h")}
    paid = {ttl: size for ttl, size in written.items() if size}
    return PromptBill(usage.input, usage.cache_read, paid)
