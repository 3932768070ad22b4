"""OpenAI's prompt cache up to GPT-5.5: free writes, an entry every few tokens, on one machine."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, NamedTuple

from proxy.caches import prefixes
from proxy.caches.bills import readable_tokens
from proxy.caches.entries import CacheEntries, EntryLife
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, Point

_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIIntervalRules:
    """The numbers of this regime.

    Source: OpenAI, prompt caching guide, models before GPT-5.6 (2026-09), unless said otherwise.

    Attributes:
        interval: Tokens from one breakpoint to the next; published for gpt-5.5 only. OpenAI's own
            tokens in front of the prompt are unpublished, so none are counted.
        step: ``cached_tokens`` is rounded down to its multiples.
        least: Shorter prefixes are not stored. Disputed: 1,024 for long, in 2026-09 "varies by
            request settings", with 2,048 seen.
        machines: Number of machines; unpublished.
        routed: Tokens whose hash chooses the machine; "typically 256" in the older guide.
        per_minute: Calls of one route above which others go to another machine.
        idle_least: Seconds without use after which the first entries die.
        idle_most: Seconds without use after which the last entries die.
        oldest: Seconds after which an entry dies, used or not.
        most: Entries kept by each machine, and routes counted.
    """

    interval: int = 2_048
    step: int = 128
    least: int = 1_024
    machines: int = 8
    routed: int = 256
    per_minute: int = 15
    idle_least: float = 300.0
    idle_most: float = 600.0
    oldest: float = 3_600.0
    most: int = 20_000


IN_MEMORY = OpenAIIntervalRules()
#: ``prompt_cache_retention: 24h``: typically some 30 minutes, never more than a day.
EXTENDED = OpenAIIntervalRules(idle_least=1_800.0, idle_most=1_800.0, oldest=86_400.0)
#: Lives of entries by ``prompt_cache_retention``, of a call or of the catalog's route.
RETENTIONS: Mapping[str, OpenAIIntervalRules] = {"in_memory": IN_MEMORY, "24h": EXTENDED}
#: Source: Azure OpenAI, prompt caching (2026-08): the first 1,024 tokens, then steps of 128.
AZURE = OpenAIIntervalRules(interval=128)


def provider_rules(provider: str) -> OpenAIIntervalRules:
    """The rules of a provider's cache; OpenAI's own for any but Azure."""
    return AZURE if provider == "azure" else IN_MEMORY


class MinuteCalls(NamedTuple):
    """Calls of one route to a machine in a minute that began with the first of them.

    Source: OpenAI, prompt caching guide, routing (2025): beyond some 15 others take over.
    """

    since: float
    calls: int = 0

    def at(self, now: float) -> "MinuteCalls":
        """The calls that count now: none of a minute that is over."""
        return self if now - self.since < _MINUTE_S else MinuteCalls(now)

    def with_call(self) -> "MinuteCalls":
        """The same with one call more."""
        return MinuteCalls(self.since, self.calls + 1)


class OpenAIIntervals:
    """OpenAI's interval regime; ``Rules.machines`` times ``Rules.most`` entries at most.

    When an entry dies is drawn by its tokens, whatever the key: two ways to send the same prompts
    are compared under the same lots.
    """

    def __init__(self, rules: OpenAIIntervalRules = IN_MEMORY, *, seed: int = 0) -> None:
        self._rules = rules
        self._seed = seed
        self._machines = [CacheEntries(rules.most) for _ in range(rules.machines)]
        self._routes: OrderedDict[bytes, MinuteCalls] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._machines))

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read up to the longest breakpoint that the call's machine stores."""
        content = prefixes.prompt_bytes(prompt)
        points = self._points(prompt, content)
        lots = self._points(replace(prompt, key=""), content) if prompt.key else points
        machine = self._machine(prompt, content, now)
        read, total = 0, len(content) // WORD
        for point, lot in zip(points, lots, strict=True):
            if machine.is_readable(point.digest, now):
                read = readable_tokens(point.tokens, total, step=self._rules.step)
                machine.renew(point.digest, now)
            else:
                machine.write(point.digest, self._entry_life(lot, now, prompt.retention))
        return Served(read=read, fresh=total - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Let others on the same machine read what the prompt stored."""
        for point in self._points(prompt, prefixes.prompt_bytes(prompt)):
            for machine in self._machines:
                machine.begin(point.digest)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store nothing: an answer is cached when it comes back in a prompt."""

    def _points(self, prompt: CachedPrompt, content: bytes) -> list[Point]:
        """The prompt's breakpoints."""
        rules = self._rules
        ends = range(rules.interval, len(content) // WORD + 1, rules.interval)
        lengths = [length for length in ends if length >= rules.least]
        return prefixes.points_at_lengths(prefixes.root_digest(prompt), content, lengths)

    def _machine(self, prompt: CachedPrompt, content: bytes, now: float) -> CacheEntries:
        """The home of the prompt's first tokens and key, or the next one while that is busy."""
        rules = self._rules
        head = prefixes.root_digest(prompt) + content[: rules.routed * WORD]
        route = blake2b(head, digest_size=8).digest()
        before = self._routes.pop(route, MinuteCalls(now)).at(now)
        self._routes[route] = before.with_call()
        if len(self._routes) > rules.most:
            self._routes.popitem(last=False)
        home = int.from_bytes(route, "big") + before.calls // rules.per_minute
        return self._machines[home % rules.machines]

    def _entry_life(self, lot: Point, now: float, retention: str) -> EntryLife:
        rules = EXTENDED if retention == "24h" else self._rules
        share = prefixes.seeded_chance(self._seed, lot.digest)
        idle = rules.idle_least + (rules.idle_most - rules.idle_least) * share
        return EntryLife(now, idle, limit=now + rules.oldest)
