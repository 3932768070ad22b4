"""A second accounting of prompt caches: what each call of a sequence reads, writes and costs.

It shares no code with ``proxy.caches``, which it checks. It is written to be read, not to be
quick.

Source: ``providers.md`` (2026-11); the section stands at each rule.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple, Protocol

from tests.accounting import breakpoints, streams
from tests.accounting.rules import CacheRules
from tests.accounting.wire import Tokens, WirePrompt


class AccountedCall(NamedTuple):
    """One call on the wire: its prompt, its moments in seconds, and its answer's tokens."""

    prompt: WirePrompt
    sent: float
    began: float
    ended: float
    answer: Tokens = ()


class PromptBill(NamedTuple):
    """Prompt tokens of a call by how they are billed; ``written`` by lifetime."""

    uncached: int
    read: int
    written: Mapping[str, int]

    @property
    def tokens(self) -> int:
        """All tokens, which long-context prices go by (§0)."""
        return self.uncached + self.read + sum(self.written.values())


class AccountedCache(Protocol):
    """A cache as the three moments of a call meet it."""

    def send(self, prompt: WirePrompt, now: float) -> tuple[int, Mapping[str, int]]:
        """Tokens read, and tokens written by lifetime."""
        ...

    def begin(self, prompt: WirePrompt, now: float) -> None:
        """Take the answer's first byte."""
        ...

    def end(self, prompt: WirePrompt, answer: Tokens, now: float) -> None:
        """Take the answer's last byte."""
        ...


def account(calls: Iterable[AccountedCall], rules: CacheRules) -> Iterator[PromptBill | None]:
    """The bill of each call, in the order of sending; None for one whose marks are refused."""
    cache, numbers = _FAMILIES[rules.family](rules), count()
    due: list[tuple[float, int, bool, AccountedCall]] = []
    for call in calls:
        while due and due[0][0] <= call.sent:
            now, _, is_end, before = heappop(due)
            if is_end:
                cache.end(before.prompt, before.answer, now)
            else:
                cache.begin(before.prompt, now)
        try:
            read, written = cache.send(call.prompt, call.sent)
        except ValueError:
            yield None
            continue
        uncached = len(call.prompt.tokens) - read - sum(written.values())
        yield PromptBill(uncached, read, {ttl: size for ttl, size in written.items() if size})
        heappush(due, (call.began, next(numbers), False, call))
        heappush(due, (call.ended, next(numbers), True, call))


_FAMILIES: Final[Mapping[str, Callable[[CacheRules], AccountedCache]]] = {
    "anthropic": breakpoints.Breakpoints,
    "bedrock": breakpoints.Bedrock,
    "openai-breakpoint": breakpoints.ExactBreakpoints,
    "azure-breakpoint": breakpoints.AzureBreakpoints,
    "interval": breakpoints.Intervals,
    "prefix": streams.Prefixes,
    "unit": streams.Units,
    "slot": streams.Slots,
}
