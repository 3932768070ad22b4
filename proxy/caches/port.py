"""The port of a provider's prompt cache."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Ttl = Literal["5m", "30m", "1h", "12h"]
Role = Literal["tools", "system", "developer", "user", "assistant", "tool"]


class Position(Protocol):
    """A place of a prompt at whose end a breakpoint can stand, as the rules of caches see it."""

    @property
    def role(self) -> str:
        """The role that speaks at this position."""
        ...

    @property
    def message(self) -> int:
        """Index of the message it belongs to."""
        ...

    @property
    def kind(self) -> str:
        """Its type on the wire."""
        ...


class MarkedPositions(Protocol):
    """A prompt as the rules of caches see it; by tokens or by fingerprints, its owner knows."""

    @property
    def blocks(self) -> Sequence[Position]:
        """Its positions, in wire order."""
        ...

    @property
    def marks(self) -> Mapping[int, str]:
        """The lifetime of each mark, by index of its block; "" for the provider's own."""
        ...

    @property
    def explicit(self) -> bool:
        """True if only marked blocks may be written."""
        ...

    @property
    def ttl(self) -> str | None:
        """The lifetime asked for the whole call; nothing for the provider's own."""
        ...


def marked_blocks(prompt: MarkedPositions) -> list[int]:
    """The blocks that carry a mark, in order; marks of blocks that are not there are none."""
    return sorted(index for index in prompt.marks if 0 <= index < len(prompt.blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBlock:
    """One content block of a prompt in wire order: the smallest place a breakpoint can stand.

    Attributes:
        tokens: Its token ids, in order, as rendered: what parts one role or message from the next
            is among them. Each fits 32 bits.
        message: Index of the message it belongs to; blocks of one message share it.
        kind: The block's type on the wire, such as ``text`` or ``tool_use``.
        mark: The breakpoint the caller put at its end; None for none.
    """

    role: Role
    tokens: tuple[int, ...]
    message: int
    kind: str = "text"
    mark: Ttl | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrompt:
    """A prompt as a cache sees it.

    Attributes:
        blocks: In wire order: tools, system, then the conversation.
        scope: Whose cache it may hit: organisation or workspace, model and the parameters that
            are part of the prefix.
        key: ``prompt_cache_key``, ``cache_salt`` or the like; "" for none.
        explicit: True if only marked blocks may be written (OpenAI's explicit mode).
        ttl: The lifetime asked for the whole call; None for the provider's own.
        retention: ``prompt_cache_retention`` of OpenAI up to GPT-5.5; "" for ``in_memory``.
    """

    blocks: tuple[TokenBlock, ...]
    scope: str = ""
    key: str = ""
    explicit: bool = False
    ttl: Ttl | None = None
    retention: str = ""

    @property
    def tokens(self) -> int:
        """Tokens in all."""
        return sum(len(block.tokens) for block in self.blocks)

    @property
    def marks(self) -> dict[int, Ttl]:
        """The lifetime of each mark, by index of its block."""
        return {
            index: block.mark for index, block in enumerate(self.blocks) if block.mark is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The tokens of one prompt as a cache served them; the three parts add up to the prompt.

    Attributes:
        written: Tokens stored at a price, by lifetime; free writes are not counted here.
        fresh: Tokens computed at the ordinary price.
    """

    read: int
    fresh: int
    written: Mapping[Ttl, int] = field(default_factory=dict)


class Cache(Protocol):
    """One provider's prompt cache; time is an argument, chance a seed given at construction.

    The order of a call is ``serve``, then ``begin_answer`` when the first byte of the answer
    leaves, then ``finish_answer`` with what was generated. A call that fails is never begun.
    """

    def serve(self, prompt: CachedPrompt, now: float) -> Served:
        """Serve the prompt at ``now`` (seconds), and remember what it will store.

        Raises:
            ValueError: The provider would refuse the prompt's marks with a 400; says why.
        """
        ...

    def begin_answer(self, prompt: CachedPrompt, now: float) -> None:
        """Make what the prompt stores visible to others, or start to build it."""
        ...

    def finish_answer(self, prompt: CachedPrompt, generated: tuple[int, ...], now: float) -> None:
        """Store what the generation adds, where this cache keeps it."""
        ...
