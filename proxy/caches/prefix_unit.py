"""DeepSeek's context cache: a prompt hits only where one of a few whole prefixes was kept."""

from collections import OrderedDict
from dataclasses import dataclass

from proxy.caches import prefixes
from proxy.caches.bills import readable_tokens
from proxy.caches.entries import EntryLife
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, token_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUnitRules:
    """The numbers of this regime.

    Source: DeepSeek, context caching guide (2026-11), unless said otherwise.

    Attributes:
        step: Counts are rounded down to its multiples, and common prefixes are found in them. 64
            in the news of 2024; counts measured since are multiples of 64 or 128.
        build: Seconds from an answer's first byte until its units can be hit; "seconds".
        lifetime: Seconds a unit lives after its last use; "hours to days".
        least: Shorter prompts, and shorter hits, count as nothing.
        most: Places where units are kept, and places remembered to find common prefixes.
        endings: Units that differ in their last few tokens only, kept per place.
    """

    step: int = 64
    build: float = 2.0
    lifetime: float = 7_200.0
    least: int = 0
    most: int = 50_000
    endings: int = 64


DEEPSEEK = PrefixUnitRules()


def unit_lengths(total: int, rules: PrefixUnitRules, *, shared: int = 0) -> list[int]:
    """The lengths in tokens of the units that are kept of a content.

    The units at regular intervals in long prompts are left out: their distance is unpublished.

    Source: DeepSeek, context caching guide (2026-11): all of it, and what it shares with an
    earlier one.

    Args:
        total: Tokens of a prompt, or of one with its answer.
        shared: Number of them that an earlier prompt began with.
    """
    common = shared // rules.step * rules.step
    return [common, total] if common else [total]


def unit_life(before: EntryLife | None, now: float, rules: PrefixUnitRules) -> EntryLife:
    """The life of a unit that is kept now; one that lives already can be read no later."""
    begins = now + rules.build
    if before is not None and before.ends >= now:
        begins = before.begins
    return EntryLife(now, rules.lifetime, begins)


class PrefixUnits:
    """DeepSeek's regime for all accounts; ``Rules.most`` times ``Rules.endings`` units at most.

    A unit is found by the digest of its full steps and, below that, the tokens left over.
    """

    def __init__(self, rules: PrefixUnitRules = DEEPSEEK) -> None:
        self._rules = rules
        self._units: OrderedDict[bytes, dict[bytes, EntryLife]] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._units.values()))

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read the longest unit the prompt begins with, rounded down."""
        content = prefixes.prompt_bytes(prompt)
        total = len(content) // WORD
        chain = self._chain(prompt, content)
        hits = (
            length for length in range(len(chain), 0, -1) if self._hit(chain, length, content, now)
        )
        step, least = self._rules.step, self._rules.least
        read = readable_tokens(next(hits, 0) * step, total, step=step, least=least)
        return Served(read=read, fresh=total - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Keep the whole prompt, and what it shares with an earlier one."""
        content = prefixes.prompt_bytes(prompt)
        chain = self._chain(prompt, content)
        shared = next(
            (length for length, link in enumerate(chain) if link not in self._seen), len(chain)
        )
        total = len(content) // WORD
        for length in unit_lengths(total, self._rules, shared=shared * self._rules.step):
            self._keep(chain, length, content, now)
        for link in reversed(chain):
            self._seen[link] = None
            self._seen.move_to_end(link)
        while len(self._seen) > self._rules.most:
            self._seen.popitem(last=False)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Keep the prompt with its answer."""
        content = prefixes.prompt_bytes(prompt) + token_bytes(generated)
        chain = self._chain(prompt, content)
        self._keep(chain, len(content) // WORD, content, now)

    def _chain(self, prompt: CachedPrompt, content: bytes) -> list[bytes]:
        if len(content) // WORD < self._rules.least:
            return []
        return prefixes.block_digests(prefixes.root_digest(prompt), content, self._rules.step)

    def _hit(self, chain: list[bytes], length: int, content: bytes, now: float) -> bool:
        """True if a unit with ``length`` full steps begins the prompt; then it lives on."""
        units = self._units.get(chain[length - 1])
        if units is None:
            return False
        rest = content[length * self._rules.step * WORD :][: self._rules.step * WORD]
        hits = [
            (ending, life)
            for ending, life in units.items()
            if rest.startswith(ending) and life.is_live(now)
        ]
        for ending, life in hits:
            units[ending] = life.after_use(now)
            self._units.move_to_end(chain[length - 1])
        return bool(hits)

    def _keep(self, chain: list[bytes], length: int, content: bytes, now: float) -> None:
        """Keep the first ``length`` tokens as a unit; less than a step is never counted as read."""
        steps = length // self._rules.step
        if not 0 < steps <= len(chain):
            return
        units = self._units.setdefault(chain[steps - 1], {})
        self._units.move_to_end(chain[steps - 1])
        ending = content[steps * self._rules.step * WORD : length * WORD]
        units[ending] = unit_life(units.pop(ending, None), now, self._rules)
        if len(units) > self._rules.endings:
            del units[next(iter(units))]
        if len(self._units) > self._rules.most:
            self._units.popitem(last=False)
