"""A prompt in the pieces that could stand elsewhere, and its beginnings, as digests.

A unit is a tool, or a line of a system text. A link is a beginning: it ends every few tokens and
at the end of each message.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.caches.prefixes import WORD, token_bytes
from proxy.tools.simulator.rendering import BODY, END

#: Roles that speak before the conversation.
_HEAD: Final = frozenset({"tools", "system", "developer"})
_ASSISTANT: Final = "assistant"
_CHUNK: Final = 16
_SIZE: Final = 16
_NOTHING: Final[AbstractSet[int]] = frozenset()


class PromptPiece(NamedTuple):
    """A unit or a link.

    Attributes:
        tokens: Number of tokens it adds.
        spoken: True if a link ends in what the assistant said.
    """

    digest: bytes
    tokens: int
    spoken: bool = False


class PromptPieces(NamedTuple):
    """A prompt taken apart.

    Attributes:
        heads: Its tools and the lines of its system texts.
        links: The beginnings of its conversation, and of an answer.
    """

    heads: list[PromptPiece]
    links: list[PromptPiece]


class PromptUnits:
    """Takes prompts apart; remembers how it took their blocks, bounded by the pieces remembered.

    Args:
        ends: The ids that end a line.
        most: Pieces remembered.
    """

    def __init__(self, ends: AbstractSet[int], most: int = 200_000) -> None:
        self._ends = ends
        self._most = most
        self._held = 0
        self._known: OrderedDict[bytes, list[PromptPiece]] = OrderedDict()

    def split(self, prompt: CachedPrompt, generated: tuple[int, ...] = ()) -> PromptPieces:
        """The prompt, with an answer at its end, taken apart."""
        return PromptPieces(list(self.heads(prompt)), history(prompt, generated))

    def heads(self, prompt: CachedPrompt) -> Iterator[PromptPiece]:
        """Each tool, and each line of a system text, wherever it stands."""
        scope = prompt.scope.encode()
        for block in prompt.blocks:
            if block.role in _HEAD:
                yield from self._pieces(block, scope)

    def _pieces(self, block: TokenBlock, scope: bytes) -> list[PromptPiece]:
        raw = token_bytes(block.tokens)
        key = blake2b(scope + raw, digest_size=_SIZE, person=block.role.encode()).digest()
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        ends = _NOTHING if block.role == "tools" else self._ends
        found = [
            PromptPiece(blake2b(scope + token_bytes(piece), digest_size=_SIZE).digest(), len(piece))
            for piece in _split_lines(block.tokens, ends)
        ]
        self._known[key] = found
        self._held += len(found)
        while self._held > self._most:
            _, dropped = self._known.popitem(last=False)
            self._held -= len(dropped)
        return found


def history(prompt: CachedPrompt, generated: tuple[int, ...] = ()) -> list[PromptPiece]:
    """The links of the conversation alone, with an answer at its end."""
    blocks = (block for block in prompt.blocks if block.role not in _HEAD)
    return _links(b"history" + prompt.scope.encode(), blocks, generated)


def beginnings(prompt: CachedPrompt, generated: tuple[int, ...] = ()) -> list[PromptPiece]:
    """The links of the whole prompt, with an answer at its end."""
    return _links(b"whole" + prompt.scope.encode(), prompt.blocks, generated)


def place(prompt: CachedPrompt, tokens: int) -> str:
    """Place of a prompt's token of that number: tools, system text, or conversation."""
    for block in prompt.blocks:
        tokens -= len(block.tokens)
        if tokens < 0:
            break
    else:
        return "the conversation"
    if block.role == "tools":
        return "the tools"
    return "the system text" if block.role in _HEAD else "the conversation"


def _split_lines(tokens: tuple[int, ...], ends: AbstractSet[int]) -> Iterator[tuple[int, ...]]:
    """The tokens in lines; what opens a message, and what closes it, stands alone."""
    start = 0
    for at, token in enumerate(tokens):
        if token == END and at > start:
            yield tokens[start:at]
            start = at
        elif token == BODY or token in ends:
            yield tokens[start : at + 1]
            start = at + 1
    if start < len(tokens):
        yield tokens[start:]


def _links(
    root: bytes, blocks: Iterable[TokenBlock], generated: tuple[int, ...]
) -> list[PromptPiece]:
    found = []
    link = blake2b(root, digest_size=_SIZE).digest()
    groups = list(_messages(blocks))
    messages = [b"".join(token_bytes(block.tokens) for block in group) for group in groups]
    if messages and generated:
        messages[-1] += token_bytes(generated)
    for group, raw in zip(groups, messages, strict=True):
        spoken = group[0].role == _ASSISTANT
        for at in range(0, len(raw), _CHUNK * WORD):
            chunk = raw[at : at + _CHUNK * WORD]
            link = blake2b(link + chunk, digest_size=_SIZE).digest()
            found.append(PromptPiece(link, len(chunk) // WORD, spoken))
    return found


def _messages(blocks: Iterable[TokenBlock]) -> Iterator[list[TokenBlock]]:
    for _, group in groupby(blocks, lambda block: block.message):
        yield list(group)
