"""The gain of warming: calls that found their beginning warmed, and what typed prompts cost.

::

    a prompt was warmed ─► note_warmed ─┐
    a typed prompt's call ─► note_typed ─► its receipt: observe ─┴─► remembered at its replica
    a caller's call has ended ─► note_call ─► its tokens, if it begins with one of them
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.warming.accounts import WarmingAccounts, WarmingKind, WarmingResult
from proxy.engines.warming.warmed_prefixes import WarmedPrefixes
from proxy.records.receipt import Outcome, Receipt
from proxy.services.engines.replica_monitor import ReplicaStatus

#: Calls of typed prompts whose receipts are awaited.
_MAX_AWAITED: Final = 1_024
_MAX_REPLICAS: Final = 256
_RESULTS: Final = {
    Outcome.ANSWERED: WarmingResult.WARMED,
    Outcome.HUNG_UP: WarmingResult.CANCELLED,
    Outcome.REFUSED: WarmingResult.REFUSED,
}


@dataclass(slots=True)
class _WarmedPlace:
    """Prompts that were warmed at a replica since one of its starts."""

    starts: int
    prefixes: WarmedPrefixes = field(default_factory=WarmedPrefixes)


class WarmingGains:
    """Counts calls that found their beginning warmed; bounded."""

    def __init__(self, accounts: WarmingAccounts) -> None:
        self.accounts = accounts
        self._places: OrderedDict[str, _WarmedPlace] = OrderedDict()
        self._awaited: OrderedDict[str, tuple[ReplicaStatus, PromptChain]] = OrderedDict()

    def note_warmed(
        self, status: ReplicaStatus, kind: WarmingKind, chain: PromptChain, tokens: int
    ) -> None:
        """Remember a prompt for which a replica computed so many tokens."""
        place = self._places.get(status.name)
        if place is None or place.starts != status.starts:
            place = self._places[status.name] = _WarmedPlace(status.starts)
        place.prefixes.add(kind, chain, tokens)
        while len(self._places) > _MAX_REPLICAS:
            self._places.popitem(last=False)

    def note_typed(self, call_id: str, status: ReplicaStatus, chain: PromptChain) -> None:
        """Await the receipt of a call that warms a prompt which is still being typed."""
        self._awaited[call_id] = status, chain
        while len(self._awaited) > _MAX_AWAITED:
            self._awaited.popitem(last=False)

    def observe(self, receipt: Receipt) -> None:
        """Count what warming a typed prompt cost, and remember it where that was done."""
        awaited = self._awaited.pop(receipt.call_id, None)
        if awaited is None:
            return
        status, chain = awaited
        key = status.profile, WarmingKind.TYPED
        result = _RESULTS.get(receipt.outcome, WarmingResult.FAILED)
        self.accounts.results[*key, result] += 1
        self.accounts.nanos[key] += receipt.cost_nanos or 0
        if receipt.usage is None:
            return
        computed = receipt.usage.prompt_tokens - receipt.usage.cache_read
        self.accounts.tokens[key] += computed
        if result is WarmingResult.WARMED:
            self.note_warmed(status, WarmingKind.TYPED, chain, computed)

    def note_call(self, status: ReplicaStatus, chain: PromptChain, cached_tokens: int) -> None:
        """Count what a call found warmed that has ended well at a replica."""
        place = self._places.get(status.name)
        if place is None or place.starts != status.starts:
            return
        for kind, tokens in place.prefixes.use(chain, cached_tokens).items():
            rate = status.prefill_tokens_per_s
            self.accounts.note_use(status.profile, kind, tokens, rate)
