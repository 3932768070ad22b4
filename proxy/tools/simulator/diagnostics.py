"""Reasons for which a prompt differs from an earlier one, as providers say them when asked.

::

    Anthropic   diagnostics.previous_message_id               fingerprints of calls that ask
    OpenAI      prompt_cache_options.comparison_response_id   of all calls from GPT-5.6 on

Two prompts are compared, whatever the cache did: an answer may tell a difference and be read from
the cache, or tell none and not be.

Source: Anthropic, cache diagnostics (2026-11) and anthropic 2.11; OpenAI, prompt cache diagnostics
(2026-09) and openai 3.52.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from proxy.caches.port import TokenBlock
from proxy.tools.simulator.bodies import Body, to_json
from proxy.tools.simulator.scripted_reply import EndpointDialect, ScriptedReply
from proxy.tools.simulator.streams import Json

_NEWEST: Final = "openai-breakpoint"
#: Names of a block's differences; anything else is the conversation's.
_ANTHROPIC: Final = {"tools": "tools_changed", "system": "system_changed"}
_OPENAI: Final = {"tools": "tools_changed"}


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The digests of a call that a later one is compared with.

    Attributes:
        said: Parameters that shape the prompt besides its blocks, by the reason their change gives.
        blocks: The role, the digest and the tokens of each block, up to the answer.
    """

    said: Mapping[str, str]
    blocks: tuple[tuple[str, bytes, int], ...]


class Fingerprints:
    """Fingerprints of the latest calls, by the id of their answer.

    Args:
        most: Most that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, Fingerprint] = OrderedDict()

    def diagnose(self, speech: EndpointDialect, body: Body, scripted: ScriptedReply) -> Json:
        """The cache diagnostics that a call asked for; empty where it did not."""
        answer = f"{speech.prefix}_{scripted.id}"
        if speech.prefix == "msg" and body.get("diagnostics") is not None:
            previous = body["diagnostics"].get("previous_message_id")
            now = Fingerprint({"model_changed": body["model"]}, _blocks(scripted))
            before = self._replace(previous, answer, now)
            return {"diagnostics": _anthropic(before, now) if previous is not None else None}
        if speech.prefix == "resp" and scripted.model.regime == _NEWEST:
            options = body.get("prompt_cache_options") or {}
            previous = options.get("comparison_response_id")
            now = Fingerprint(_compared_fields(body), _blocks(scripted))
            before = self._replace(previous, answer, now)
            if previous is not None:
                echo = {"mode": "implicit", "ttl": "30m", **options}
                found = _openai(before, now)
                return {"prompt_cache_options": echo, "prompt_cache_diagnostics": found}
        return {}

    def _replace(self, previous: object, answer: str, now: Fingerprint) -> Fingerprint | None:
        """The earlier call's, with this one's kept."""
        before = self._kept.get(previous) if isinstance(previous, str) else None
        self._kept[answer] = now
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return before


def _anthropic(before: Fingerprint | None, now: Fingerprint) -> Json | None:
    """Anthropic's object; None where nothing differs."""
    if before is None:
        return {"cache_miss_reason": {"type": "previous_message_not_found"}}
    reason, missed = _difference(before, now, _ANTHROPIC, "messages_changed")
    if not reason:
        return None
    return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": missed}}


def _openai(before: Fingerprint | None, now: Fingerprint) -> Json:
    """OpenAI's object."""
    if before is None:
        return {"type": "comparison_response_not_found"}
    reason, missed = _difference(before, now, _OPENAI, "input_changed")
    if not reason:
        return {"type": "cache_hit"}
    return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": missed}


def _difference(
    before: Fingerprint, now: Fingerprint, names: Mapping[str, str], usual: str
) -> tuple[str, int]:
    """The first difference, and the earlier prompt's tokens from there on; "" for none."""
    for reason, value in now.said.items():
        if before.said.get(reason) != value:
            return reason, sum(tokens for _, _, tokens in before.blocks)
    for at, (role, digest, _) in enumerate(before.blocks):
        there = now.blocks[at] if at < len(now.blocks) else ("", b"", 0)
        if there[:2] != (role, digest):
            missed = sum(tokens for _, _, tokens in before.blocks[at:])
            return names.get(role, usual), missed
    return "", 0


def _compared_fields(body: Body) -> dict[str, str]:
    text = body.get("text") or {}
    return {
        "model_changed": str(body["model"]),
        "prompt_cache_key_changed": str(body.get("prompt_cache_key")),
        "text_format_changed": to_json(text.get("format")),
        "reasoning_effort_changed": to_json((body.get("reasoning") or {}).get("effort")),
        "verbosity_changed": to_json(text.get("verbosity")),
        "service_tier_changed": str(body.get("service_tier")),
    }


def _blocks(scripted: ScriptedReply) -> tuple[tuple[str, bytes, int], ...]:
    """The prompt's blocks without what primes the answer."""
    blocks = scripted.asked.prompt.blocks[:-1]
    return tuple((block.role, _digest(block), len(block.tokens)) for block in blocks)


def _digest(block: TokenBlock) -> bytes:
    return blake2b(repr(block.tokens).encode(), digest_size=8).digest()
