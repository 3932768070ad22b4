"""Prompts for the cache tests: named stretches of made-up tokens."""

from functools import cache as memoised
from hashlib import blake2b

from hypothesis import strategies as st

from proxy.caches.port import Cache, CachedPrompt, Role, Served, TokenBlock, Ttl


@memoised
def tokens(name: str, count: int) -> tuple[int, ...]:
    """Made-up token ids that no other name shares."""
    start = int.from_bytes(blake2b(name.encode(), digest_size=3).digest(), "big") << 7
    return tuple(range(start, start + count))


def block(
    name: str,
    count: int,
    *,
    role: Role = "user",
    message: int = 0,
    kind: str = "text",
    mark: Ttl | None = None,
) -> TokenBlock:
    return TokenBlock(role=role, tokens=tokens(name, count), message=message, kind=kind, mark=mark)


def prompt(
    *blocks: TokenBlock,
    scope: str = "",
    key: str = "",
    explicit: bool = False,
    ttl: Ttl | None = None,
) -> CachedPrompt:
    return CachedPrompt(blocks=blocks, scope=scope, key=key, explicit=explicit, ttl=ttl)


def users(*stretches: tuple[str, int], scope: str = "", key: str = "") -> CachedPrompt:
    """A prompt of user messages, one per stretch."""
    blocks = [block(name, count, message=index) for index, (name, count) in enumerate(stretches)]
    return prompt(*blocks, scope=scope, key=key)


def call(
    cache: Cache, sent_prompt: CachedPrompt, now: float = 0.0, generated: tuple[int, ...] = ()
) -> Served:
    """One call from start to end in no time."""
    served = cache.serve(sent_prompt, now)
    cache.begin_answer(sent_prompt, now)
    cache.finish_answer(sent_prompt, generated, now)
    return served


def written_tokens(served: Served) -> int:
    return sum(served.written.values())


ROLES: tuple[Role, ...] = ("user", "assistant", "tool", "developer")


@st.composite
def conversations(draw: st.DrawFn, max_blocks: int = 12) -> CachedPrompt:
    """Conversations over a few names, so that they often share a prefix."""
    head = draw(st.lists(st.sampled_from(["tools", "rules"]), max_size=2, unique=True))
    blocks = [
        block(name, draw(st.sampled_from([40, 700, 1_300])), role="developer", message=index)
        for index, name in enumerate(head)
    ]
    for index in range(draw(st.integers(1, max_blocks))):
        name = draw(st.sampled_from(["a", "b", "c"]))
        count = draw(st.sampled_from([1, 63, 64, 500, 1_024, 2_048]))
        blocks.append(block(name, count, role=draw(st.sampled_from(ROLES)), message=index + 2))
    return prompt(*blocks, scope=draw(st.sampled_from(["one", "two"])))
