"""Both accountings agree on random streams of calls, in every API on every cache."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

from proxy.caches.port import CachedPrompt
from proxy.tools.simulator.apis.chat_bodies import chat_prompt as read_chat
from proxy.tools.simulator.apis.messages_bodies import messages_prompt as read_messages
from proxy.tools.simulator.apis.responses_bodies import read_responses_request
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ReadingContext
from tests.accounting.accounts import AccountedCall, account
from tests.accounting.random_bodies import RandomStream
from tests.accounting.rules import RULES
from tests.accounting.test_agreement import fixed_cache, model_bills
from tests.accounting.wire import WirePrompt, chat_prompt, messages_prompt, responses_prompt
from tests.proxy.catalog.shipped_models import SHIPPED


class _Cache(NamedTuple):
    """A cache as the catalog names it, the APIs that it is spoken to in, and its marks."""

    regime: str
    provider: str
    least: int | None = None
    apis: tuple[str, ...] = ("chat",)
    lifetimes: tuple[str, ...] = ()
    retention: str = ""


_OPENAI: Final = ("chat", "responses")
_CACHES: Final[Mapping[str, _Cache]] = {
    "anthropic": _Cache("anthropic-breakpoint", "anthropic", 512, ("messages",), ("5m", "1h")),
    "anthropic-4096": _Cache("anthropic-breakpoint", "anthropic", 4_096, ("messages",), ("5m",)),
    "bedrock": _Cache("anthropic-breakpoint", "bedrock", 1_024, ("messages",), ("5m", "1h")),
    "openai-breakpoint": _Cache("openai-breakpoint", "openai", 1_024, _OPENAI, ("30m", "12h")),
    "azure-breakpoint": _Cache("openai-breakpoint", "azure", 1_024, _OPENAI, ("30m",)),
    "openai-interval": _Cache("openai-interval", "openai", 1_024, _OPENAI),
    "openai-interval-24h": _Cache("openai-interval", "openai", 1_024, _OPENAI, retention="24h"),
    "azure-interval": _Cache("openai-interval", "azure", 1_024, _OPENAI),
    "gemini": _Cache("implicit", "google", 4_096),
    "groq": _Cache("implicit", "groq", 1_024),
    "fireworks": _Cache("implicit", "fireworks"),
    "sglang": _Cache("implicit", "sglang"),
    "llamacpp": _Cache("implicit", "llamacpp"),
    "deepseek": _Cache("prefix-unit", "deepseek"),
    "mistral": _Cache("block-chain", "mistral"),
    "xai": _Cache("block-chain", "xai"),
    "vllm": _Cache("block-chain", "vllm"),
}
_STREAMS: Final = 8
_CALLS: Final = 24
_TTFT_S, _SECONDS_A_TOKEN = 0.5, 0.01
_PROMPTS: Final[Mapping[str, Callable[[dict[str, Any]], WirePrompt]]] = {
    "chat": chat_prompt,
    "responses": responses_prompt,
    "messages": messages_prompt,
}


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary()


def _simulated_prompt(api: str, body: dict[str, Any], context: ReadingContext) -> CachedPrompt:
    if api == "chat":
        return read_chat(body, context)
    if api == "messages":
        return read_messages(body, context)
    return read_responses_request(body, context).prompt


@pytest.mark.parametrize("seed", range(_STREAMS))
@pytest.mark.parametrize(
    ("rules", "api"), [(name, api) for name, one in _CACHES.items() for api in one.apis]
)
def test_cache_model_agrees_with_second_accounting_on_random_stream(
    rules: str, api: str, seed: int, vocabulary: Vocabulary
) -> None:
    cache = _CACHES[rules]
    model = SimulatedModel(
        regime=cache.regime,
        provider=cache.provider,
        min_cache_tokens=cache.least,
        prompt_cache_retention=cache.retention,
    )
    context = ReadingContext(vocabulary, model, "account")
    calls = []
    for sent, body, answer in RandomStream(seed, api, cache.lifetimes).calls(_CALLS):
        began = sent + _TTFT_S
        ended = began + _SECONDS_A_TOKEN * len(answer)
        call = AccountedCall(_PROMPTS[api](body), sent, began, ended, answer)
        calls.append((_simulated_prompt(api, body, context), call))
    bills = list(account((call for _, call in calls), RULES[rules]))
    modelled = model_bills(calls, fixed_cache(model))
    differing = [
        (index, *pair)
        for index, pair in enumerate(zip(bills, modelled, strict=True))
        if pair[0] != pair[1]
    ]
    assert not differing, f"{len(differing)} calls differ: {differing[:3]}"


def test_every_cache_of_the_catalog_is_accounted() -> None:
    routes = [route for model in SHIPPED.models.values() for route in model.routes]
    caches = {(route.regime, route.upstream.provider) for route in routes if route.regime}
    assert caches <= {(cache.regime, cache.provider) for cache in _CACHES.values()}
