"""Caches that read the longest prefix they hold: SGLang's tree, and the opaque implicit ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from proxy.caches import prefixes
from proxy.caches.bills import ALWAYS_FRESH, readable_tokens
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, token_bytes
from proxy.caches.radix import Radix


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestPrefixRules:
    """The numbers of this regime.

    Attributes:
        least: Shorter prompts, and shorter hits, count as nothing.
        page: Hits are whole pages of so many tokens.
        lifetime: Seconds a prefix lives after its last use; infinite where only room matters.
        generated: True if answers are kept too.
        room: Tokens kept; the least recently used go first.
    """

    least: int = 0
    page: int = 1
    lifetime: float = inf
    generated: bool = False
    room: int = 1_000_000


#: Source: SGLang 0.5.23 (2026-11): a radix tree with pages of one token by default.
SGLANG = LongestPrefixRules(generated=True)
#: Source: Google, Gemini context caching (2026-10): 4,096 tokens, 2,048 for the 2.5 models; no
#: lifetime is published, OpenRouter sees 3 to 5 minutes on average.
GEMINI = LongestPrefixRules(least=4_096, lifetime=240.0)
#: Source: Groq, prompt caching (2026-11): two hours idle; 128 to 1,024 tokens by model.
GROQ = LongestPrefixRules(least=1_024, lifetime=7_200.0)
#: Source: Fireworks, prompt caching (2026-11): per replica; nothing else is published.
FIREWORKS = LongestPrefixRules()
_PROVIDERS: Mapping[str, LongestPrefixRules] = {
    "groq": GROQ,
    "fireworks": FIREWORKS,
    "sglang": SGLANG,
}


def provider_rules(provider: str) -> LongestPrefixRules:
    """The rules of a provider's cache; Gemini's for one whose own are not known."""
    return _PROVIDERS.get(provider, GEMINI)


class LongestPrefix:
    """One replica's prefixes; bounded by ``Rules.room`` tokens.

    At least one token of a prompt is always fresh: without it nothing could be generated.
    """

    def __init__(self, rules: LongestPrefixRules = SGLANG) -> None:
        self._rules = rules
        self._tree = Radix(rules.page, rules.room, rules.lifetime)

    def __len__(self) -> int:
        """Tokens kept."""
        return len(self._tree)

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read the longest prefix stored."""
        content = prefixes.prompt_bytes(prompt)
        owner = prefixes.root_digest(prompt)
        total = len(content) // WORD
        rules = self._rules
        cached = self._tree.match(owner, content, now)
        read = readable_tokens(
            cached, total, step=rules.page, least=rules.least, fresh=ALWAYS_FRESH
        )
        return Served(read=read, fresh=total - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Store the prompt, or count it as just used."""
        self._insert(prompt, prefixes.prompt_bytes(prompt), now)

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store the answer too, where that is kept; its last token was never computed on."""
        if self._rules.generated:
            self._insert(prompt, prefixes.prompt_bytes(prompt) + token_bytes(generated[:-1]), now)

    def _insert(self, prompt: CachedPrompt, content: bytes, now: float) -> None:
        if len(content) // WORD >= self._rules.least:
            self._tree.insert(prefixes.root_digest(prompt), content, now)
