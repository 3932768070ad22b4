"""OpenAI's prompt cache up to GPT-5.5: free, every few tokens, and known to one machine only."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import blake2b

from proxy.caches import prefixes
from proxy.caches.entries import CacheEntries, CacheEntry
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, Point

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIIntervalRules:
    """The numbers of this regime.

    Source: OpenAI, prompt caching guide, models before GPT-5.6 (2026-09), unless said otherwise.

    Attributes:
        hidden: OpenAI's own tokens in front of the prompt; unpublished, so none are assumed.
        interval: Tokens from one breakpoint to the next, hidden ones counted. Published for
            gpt-5.5 only.
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

    hidden: int = 0
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
#: Source: Azure OpenAI, prompt caching (2026-08): the first 1,024 tokens, then steps of 128.
AZURE = OpenAIIntervalRules(interval=128)


class OpenAIIntervals:
    """OpenAI's interval regime; ``Rules.machines`` times ``Rules.most`` entries at most.

    When an entry dies is drawn by its tokens, whatever the key: two ways to send the same prompts
    are compared under the same lots.
    """

    def __init__(self, rules: OpenAIIntervalRules = IN_MEMORY, *, seed: int = 0) -> None:
        self._rules = rules
        self._seed = seed
        self._machines = [CacheEntries(rules.most) for _ in range(rules.machines)]
        self._routes: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._machines))

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read up to the longest breakpoint that the call's machine stores."""
        content = prefixes.prompt_bytes(prompt)
        points = self._points(prompt, content)
        lots = self._points(replace(prompt, key=""), content) if prompt.key else points
        machine = self._machine(prompt, content, now)
        read = 0
        for point, lot in zip(points, lots, strict=True):
            if machine.is_readable(point.digest, now):
                read = point.tokens // self._rules.step * self._rules.step
                machine.renew(point.digest, now)
            else:
                machine.write(point.digest, self._entry(lot, now))
        return Served(read=read, fresh=len(content) // WORD - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Let others on the same machine read what the prompt stored."""
        for point in self._points(prompt, prefixes.prompt_bytes(prompt)):
            for machine in self._machines:
                machine.begin(point.digest)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store nothing: an answer is cached when it comes back in a prompt."""

    def _points(self, prompt: CachedPrompt, content: bytes) -> list[Point]:
        """The prompt's breakpoints, in visible tokens."""
        rules = self._rules
        end = rules.hidden + len(content) // WORD
        at = range(rules.interval, end + 1, rules.interval)
        lengths = [place - rules.hidden for place in at if place - rules.hidden >= rules.least]
        return prefixes.points_at_lengths(prefixes.root_digest(prompt), content, lengths)

    def _machine(self, prompt: CachedPrompt, content: bytes, now: float) -> CacheEntries:
        """The home of the prompt's first tokens and key, or the next one while that is busy."""
        rules = self._rules
        head = prefixes.root_digest(prompt) + content[: rules.routed * WORD]
        route = blake2b(head, digest_size=8).digest()
        since, calls = self._routes.pop(route, (now, 0))
        if now - since >= _MINUTE_S:
            since, calls = now, 0
        self._routes[route] = since, calls + 1
        if len(self._routes) > rules.most:
            self._routes.popitem(last=False)
        home = int.from_bytes(route, "big") + calls // rules.per_minute
        return self._machines[home % rules.machines]

    def _entry(self, lot: Point, now: float) -> CacheEntry:
        rules = self._rules
        share = prefixes.seeded_chance(self._seed, lot.digest)
        idle = rules.idle_least + (rules.idle_most - rules.idle_least) * share
        return CacheEntry(idle, now + idle, limit=now + rules.oldest)
