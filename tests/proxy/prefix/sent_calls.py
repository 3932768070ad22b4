"""Calls as the caches see them, made from short words."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import msgspec

from proxy.caches.regime import Regime
from proxy.prefix.prediction.leading_texts import leading_lines
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.prompt import (
    BYTES_PER_TOKEN,
    Fingerprint,
    MessageReading,
    Prompt,
    PromptBlock,
    PromptSlot,
    conversation_blocks,
    count_leading,
    leading_text_blocks,
    parse_message,
    parse_prompt,
    tool_blocks,
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
    gone_after_s=86_400.0,
    block=2_048,
)
VLLM = Regime(name="block-chain", provider="vllm", block=16, fresh=1)
GEMINI = Regime(name="implicit", provider="google", least=4_096, lifetimes={"": 240.0}, fresh=1)
DEEPSEEK = Regime(name="prefix-unit", provider="deepseek", lifetimes={"": 7_200.0}, block=64)


def fingerprint(raw: bytes) -> bytes:
    return blake2b(raw, key=b"team", digest_size=16).digest()


def blocks(
    prompt: Prompt, fingerprint: Fingerprint, readings: Sequence[MessageReading] = ()
) -> tuple[PromptBlock, ...]:
    """Every place a breakpoint can stand, in wire order."""
    message_readings = readings or [
        MessageReading(parse_message(raw).role, fingerprint(raw)) for raw in prompt.messages
    ]
    first = count_leading(prompt)
    return (
        *tool_blocks(prompt, fingerprint),
        *leading_text_blocks(prompt, fingerprint, first),
        *conversation_blocks(prompt, message_readings, first),
    )


def block(
    name: str, size: int, *, role: str = "user", at: int = 0, leads: bool = False
) -> PromptBlock:
    slot = PromptSlot.STABLE if leads or role == "tools" else PromptSlot.VARIABLE
    message, part = (-1, at) if role == "tools" else (at, 0 if leads else -1)
    return PromptBlock(role, slot, message, part, size, fingerprint(f"{name} {size}".encode()))


def users(regime: Regime, *stretches: tuple[str, int], **more: Any) -> SentCall:
    """A call of user messages, one per stretch of so many tokens."""
    stretch_blocks = tuple(
        block(name, size * BYTES_PER_TOKEN, at=index)
        for index, (name, size) in enumerate(stretches)
    )
    return SentCall(regime=regime, blocks=stretch_blocks, **more)


def one_message(regime: Regime, *stretches: tuple[str, int], **more: Any) -> SentCall:
    """A call of one user message in parts, one per stretch of so many tokens."""
    call = users(regime, *stretches, **more)
    parts = [
        msgspec.structs.replace(part, message=0, part=index)
        for index, part in enumerate(call.blocks)
    ]
    return msgspec.structs.replace(call, blocks=tuple(parts))


def body(
    *messages: tuple[str, str], tools: tuple[str, ...] = (), **fields: object
) -> tuple[Prompt, tuple[PromptBlock, ...]]:
    """A chat body of messages (role, text) and tools by name; its prompt and blocks."""
    chat: dict[str, object] = {"model": "m", **fields}
    if tools:
        chat["tools"] = [
            {"type": "function", "function": {"name": name, "description": "d" * 400}}
            for name in tools
        ]
    chat["messages"] = [{"role": role, "content": words} for role, words in messages]
    prompt = parse_prompt(msgspec.json.encode(chat))
    return prompt, blocks(prompt, fingerprint)


def sent_chat(
    regime: Regime,
    *messages: tuple[str, str],
    tools: tuple[str, ...] = (),
    marks: Mapping[int, str] | None = None,
    **more: Any,
) -> SentCall:
    """A chat body as it is sent, its lines told apart."""
    prompt, prompt_blocks = body(*messages, tools=tools)
    leading = leading_lines(prompt, prompt_blocks)
    return SentCall(regime=regime, blocks=prompt_blocks, lines=leading, marks=marks or {}, **more)
