"""A prompt as its tokens: what the simulator's models would read, block by block.

The format is that of OpenAI's open models: start, role, body, text, end; three tokens prime the
answer. It gives the count that OpenAI documents for chat (three per message, its role, its text,
and three). The priming tokens and the generation are the opening of the next call's assistant
message, so a cache that keeps generated tokens finds them again.

Source: OpenAI, "How to count tokens with tiktoken" and the harmony format (2026-11).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from compaction.reading.vocabulary import Tokenizer
from proxy.caches.port import CachedPrompt, Role, TokenBlock, Ttl

_START, END, BODY = 200006, 200007, 200008
_OPAQUE = 2**24  # ids from here on stand for what has no text; no vocabulary reaches them
_OPAQUE_IDS = 2**31  # caches hash ids as 32-bit words


class Vocabulary:
    """o200k_base, remembering what it read; bounded by the tokens remembered."""

    def __init__(self, bound: int = 1_000_000) -> None:
        self._encode = Tokenizer("o200k_base").encode
        self._bound = bound
        self._held = 0
        self._known: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def ids(self, text: str) -> tuple[int, ...]:
        """The text's token ids."""
        ids = self._known.get(text)
        if ids is not None:
            self._known.move_to_end(text)
            return ids
        ids = tuple(self._encode(text))
        self._known[text] = ids
        self._held += len(ids)
        while self._held > self._bound:
            _, dropped = self._known.popitem(last=False)
            self._held -= len(dropped)
        return ids

    def truncate_text(self, text: str, limit: int) -> str:
        """The longest beginning of the text that is at most that many tokens."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self._encode(text[:middle])) > limit:
                high = middle - 1
            else:
                low = middle
        return text[:low]


@dataclass(frozen=True, slots=True)
class RenderedPart:
    """One block of a message, before it has a place."""

    kind: str
    tokens: tuple[int, ...]
    mark: Ttl | None = None


class PromptRenderer:
    """Collects messages in wire order and gives the prompt they make.

    Args:
        goes_on: True if a prefix that ends with a block is the same when its message goes on: what
            ends a message then stands before the next one instead of in its last block.
    """

    def __init__(self, vocabulary: Vocabulary, *, goes_on: bool = False) -> None:
        self.vocabulary = vocabulary
        self._goes_on = goes_on
        self._blocks: list[TokenBlock] = []
        self._messages = 0

    def message(self, role: Role, parts: Sequence[RenderedPart], start: int = _START) -> None:
        """Add a message; one without parts counts as one empty text.

        Args:
            start: The id that opens it; another one for what changes the text without adding to it.
        """
        parts = parts or [RenderedPart("text", ())]
        for index, part in enumerate(parts):
            tokens = part.tokens
            if index == 0:
                tokens = (*self._message_end(), start, *self.vocabulary.ids(role), BODY, *tokens)
            if index == len(parts) - 1 and not self._goes_on:
                tokens = (*tokens, END)
            self._blocks.append(
                TokenBlock(
                    role=role,
                    tokens=tokens,
                    message=self._messages,
                    kind=part.kind,
                    mark=part.mark,
                )
            )
        self._messages += 1

    def _message_end(self) -> tuple[int, ...]:
        return (END,) if self._goes_on and self._messages else ()

    def text(self, text: str, mark: Ttl | None = None) -> RenderedPart:
        """A block of text."""
        return RenderedPart("text", self.vocabulary.ids(text), mark)

    def tool_call(self, name: str, arguments: str, mark: Ttl | None = None) -> RenderedPart:
        """A call of a tool, as :func:`call_text` writes it."""
        return RenderedPart("tool_use", self.vocabulary.ids(call_text(name, arguments)), mark)

    def to_prompt(
        self,
        *,
        scope: str,
        key: str = "",
        explicit: bool = False,
        ttl: Ttl | None = None,
        retention: str = "",
    ) -> CachedPrompt:
        """The prompt, with the tokens that prime the answer at its end."""
        priming = TokenBlock(
            role="assistant",
            tokens=(*self._message_end(), _START, *self.vocabulary.ids("assistant"), BODY),
            message=self._messages,
        )
        blocks = (*self._blocks, priming)
        return CachedPrompt(
            blocks=blocks, scope=scope, key=key, explicit=explicit, ttl=ttl, retention=retention
        )


def call_text(name: str, arguments: str) -> str:
    """The text of a tool call in a prompt and in a generation."""
    return f"{name} {arguments}"


def opaque(kind: str, source: str, count: int, mark: Ttl | None = None) -> RenderedPart:
    """A block without text, such as an image: ``count`` ids that depend on what was said."""
    seed = blake2b(source.encode(), digest_size=8).digest()
    first = _OPAQUE + int.from_bytes(seed) % _OPAQUE_IDS
    return RenderedPart(kind, tuple(range(first, first + count)), mark)


def opening(parameters: str) -> int:
    """The id that opens a message under parameters that change it; the usual one for ""."""
    if not parameters:
        return _START
    seed = blake2b(parameters.encode(), digest_size=8).digest()
    return _OPAQUE + int.from_bytes(seed) % _OPAQUE_IDS
