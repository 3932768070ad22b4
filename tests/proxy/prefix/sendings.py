"""Calls as the caches see them, made from short words."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.prediction.sent import Sent, told
from proxy.prefix.prompts.prompt import (
    BYTES_PER_TOKEN,
    Block,
    Fingerprint,
    Prompt,
    Reading,
    Slot,
    front,
    leading,
    parsed,
    read,
    talk,
)

ANTHROPIC = Regime(
    name="anthropic-breakpoint",
    provider="anthropic",
    least=1_024,
    read=Fraction(1, 10),
    writes={"5m": Fraction(5, 4), "1h": Fraction(2)},
    lifetimes={"5m": 300.0, "1h": 3_600.0},
    marks=4,
    lookback=20,
)
OPENAI = Regime(
    name="openai-breakpoint",
    provider="openai",
    least=1_024,
    read=Fraction(1, 10),
    writes={"30m": Fraction(5, 4), "12h": Fraction(5, 2)},
    lifetimes={"30m": 1_800.0, "12h": 43_200.0},
    marks=4,
)
INTERVAL = Regime(
    name="openai-interval",
    provider="openai",
    least=1_024,
    read=Fraction(1, 10),
    lifetimes={"": 300.0},
    block=2_048,
)
VLLM = Regime(name="block-chain", provider="vllm", block=16)
GEMINI = Regime(name="implicit", provider="google", least=4_096, lifetimes={"": 240.0})
DEEPSEEK = Regime(name="prefix-unit", provider="deepseek", lifetimes={"": 7_200.0}, block=64)


def fingerprint(raw: bytes) -> bytes:
    return blake2b(raw, key=b"team", digest_size=16).digest()


def blocks(
    prompt: Prompt, fingerprint: Fingerprint, readings: Sequence[Reading] = ()
) -> tuple[Block, ...]:
    """Every place a breakpoint can stand, in wire order."""
    known = readings or [Reading(read(raw).role, fingerprint(raw)) for raw in prompt.messages]
    first = leading(prompt)
    return (*front(prompt, fingerprint, first), *talk(prompt, known, first))


def block(name: str, size: int, *, role: str = "user", at: int = 0, leads: bool = False) -> Block:
    slot = Slot.STABLE if leads or role == "tools" else Slot.VARIABLE
    message, part = (-1, at) if role == "tools" else (at, 0 if leads else -1)
    return Block(role, slot, message, part, size, fingerprint(f"{name} {size}".encode()))


def users(regime: Regime, *stretches: tuple[str, int], **more: Any) -> Sent:
    """A call of user messages, one per stretch of so many tokens."""
    found = tuple(
        block(name, size * BYTES_PER_TOKEN, at=at) for at, (name, size) in enumerate(stretches)
    )
    return Sent(regime=regime, blocks=found, **more)


def body(
    *messages: tuple[str, str], tools: tuple[str, ...] = (), **fields: object
) -> tuple[Prompt, tuple[Block, ...]]:
    """A chat body of messages (role, text) and tools by name; its prompt and blocks."""
    chat: dict[str, object] = {"model": "m", **fields}
    if tools:
        chat["tools"] = [
            {"type": "function", "function": {"name": name, "description": "d" * 400}}
            for name in tools
        ]
    chat["messages"] = [{"role": role, "content": words} for role, words in messages]
    prompt = parsed(msgspec.json.encode(chat))
    return prompt, blocks(prompt, fingerprint)


def sent(
    regime: Regime,
    *messages: tuple[str, str],
    tools: tuple[str, ...] = (),
    marks: Mapping[int, str] | None = None,
    **more: Any,
) -> Sent:
    """A chat body as it is sent, its lines told apart."""
    prompt, found = body(*messages, tools=tools)
    known = told(prompt, found, fingerprint)
    return Sent(regime=regime, blocks=found, lines=known, marks=marks or {}, **more)
