"""The published arithmetic of speculative decoding, and of the batch size where it stops paying.

With acceptance p per token and depth K, a step yields ``(1 - p^(K+1)) / (1 - p)`` tokens. It costs
``K·c`` for the draft, where c is a draft step in steps of the model, and one verification. A step
reads all weights, so that more tokens in it are free until the arithmetic units are busy: at S
tokens, of weights of 4 bits at a quarter of that. From there on its time grows with the tokens.

Source: Leviathan, Kalman, Matias, Fast Inference from Transformers via Speculative Decoding (2023),
theorem 3.8; the batch term as in SmartSpec (Liu et al., 2024).
"""

import re
from typing import Final

#: Tokens in a step from which on its time grows: floating point operations per byte of memory
#: traffic, for weights of two bytes. Data sheets: dense bf16 FLOP/s ÷ memory bytes/s.
SATURATION_TOKENS: Final = {
    "H100": 295,
    "H200": 206,
    "B200": 281,
    "A100": 153,
    "L40S": 419,
    "L4": 403,
}
#: The same for a GPU that is not listed, and for processors; both assumed.
ASSUMED_SATURATION_TOKENS: Final = 200
CPU_SATURATION_TOKENS: Final = 4
#: Weights of 4 bits that are computed in 16: a quarter of the bytes for the same arithmetic. fp8
#: needs half the bytes, and its units are twice as fast.
_FOUR_BITS: Final = re.compile(
    r"awq|gptq|int4|4[-_]?bit|w4a16|bnb|bitsandbytes|marlin|q4_|iq4", re.IGNORECASE
)


def saturation_tokens(gpu: str, gpus: int, weights: str = "") -> int:
    """Tokens in a step from which on its time grows.

    Args:
        gpu: Model of the GPU; "" where it is not known.
        gpus: GPUs; 0 for processors.
        weights: Number format of the weights, or a model's name that says it.
    """
    if not gpus:
        return CPU_SATURATION_TOKENS
    tokens = SATURATION_TOKENS.get(gpu.upper(), ASSUMED_SATURATION_TOKENS)
    return tokens // 4 if _FOUR_BITS.search(weights) else tokens


def tokens_per_step(acceptance: float, depth: int) -> float:
    """Expected tokens of a step: the accepted part of the draft, and one of the model's own."""
    return sum(acceptance**n for n in range(depth + 1))


def verification_cost(depth: int, batch: float, saturation: float) -> float:
    """Time of a step that verifies drafts, in steps of the same batch without them."""
    return max(1.0, batch * (depth + 1) / saturation) / max(1.0, batch / saturation)


def speed_up(
    acceptance: float, depth: int, draft_cost: float, batch: float, saturation: float
) -> float:
    """Tokens per second with speculation, as a multiple of those without.

    Args:
        acceptance: Probability that a draft token is accepted if those before it were, 0 to 1.
        depth: Draft tokens per step, K; 0 is no speculation.
        draft_cost: Time of one draft token, in steps of the model.
        batch: Sequences that are decoded at once.
        saturation: Tokens in a step from which on its time grows.
    """
    cost = depth * draft_cost + verification_cost(depth, batch, saturation)
    return tokens_per_step(acceptance, depth) / cost


def break_even_batch(
    acceptance: float, depth: int, draft_cost: float, saturation: float
) -> float | None:
    """Sequences at once from which on this depth no longer pays; None where it never does.

    Solves ``tokens = K·c + B(K+1)/S`` for B below S; from S on a step costs K + 1 times as much and
    yields fewer tokens than that.
    """
    spare = tokens_per_step(acceptance, depth) - depth * draft_cost
    if depth == 0 or spare <= 1.0:
        return None
    return min(saturation * spare / (depth + 1), float(saturation))
