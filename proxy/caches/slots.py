"""The cache of llama.cpp's server: each slot holds the last conversation it worked on."""

from dataclasses import dataclass
from typing import Final

from proxy.caches import prefixes
from proxy.caches.bills import ALWAYS_FRESH, readable_tokens
from proxy.caches.port import CachedPrompt, Served
from proxy.caches.prefixes import WORD, token_bytes
from proxy.caches.radix import common_length


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRules:
    """The numbers of this regime.

    Source: llama.cpp, server README (2026-11).

    Attributes:
        slots: Prompts worked on at once; four by default.
        similarity: The share of a prompt a slot must hold to be chosen for it.
        least: Shorter prompts are not cached.
    """

    slots: int = 4
    similarity: float = 0.10
    least: int = 0


LLAMA_CPP = SlotRules()
#: Who has slots, as the catalog names providers.
PROVIDER: Final = "llamacpp"


@dataclass(slots=True)
class _Slot:
    owner: bytes = b""
    content: bytes = b""
    used: int = 0
    busy: bool = False

    def held_tokens(self, owner: bytes, content: bytes) -> int:
        """Tokens of the content that the slot holds already."""
        return common_length(self.content, content) // WORD if owner == self.owner else 0


class ServerSlots:
    """One server's slots. A slot is busy from ``serve`` to ``finish_answer``.

    When all are busy the least recently used is taken, as if it had ended just then.
    """

    def __init__(self, rules: SlotRules = LLAMA_CPP) -> None:
        self._rules = rules
        self._slots = [_Slot() for _ in range(rules.slots)]
        self._calls = 0

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Read what the most similar free slot holds, at least one token short of the prompt."""
        owner, content = prefixes.root_digest(prompt), prefixes.prompt_bytes(prompt)
        total = len(content) // WORD
        slot, cached = self._choose(owner, content)
        self._calls += 1
        slot.owner, slot.content = owner, content
        slot.used, slot.busy = self._calls, True
        cached = cached if total >= self._rules.least else 0
        read = readable_tokens(cached, total, fresh=ALWAYS_FRESH)
        return Served(read=read, fresh=total - read)

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Change nothing: the slot held the prompt from the start."""

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Free the slot; it holds the answer too, but for the last token."""
        owner, content = prefixes.root_digest(prompt), prefixes.prompt_bytes(prompt)
        for slot in self._slots:
            if slot.busy and slot.owner == owner and slot.content == content:
                slot.content += token_bytes(generated[:-1])
                slot.busy = False
                return

    def _choose(self, owner: bytes, content: bytes) -> tuple[_Slot, int]:
        """The slot for a prompt, and how many of its tokens the slot holds."""
        free = [slot for slot in self._slots if not slot.busy] or self._slots
        candidates = [(slot.held_tokens(owner, content), slot) for slot in free]
        longest, best = max(candidates, key=lambda pair: pair[0])
        if longest * WORD > self._rules.similarity * len(content):
            return best, longest
        oldest = min(free, key=lambda slot: slot.used)
        return oldest, oldest.held_tokens(owner, content)
