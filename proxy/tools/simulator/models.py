"""The simulated models and their behaviour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Literal

from proxy.catalog.entries import Continues, Model, Route
from proxy.catalog.predecessors import SNAPSHOT
from proxy.providers.fitting.chat_schemas import chat_schema_rules
from proxy.providers.fitting.schema_rules import SchemaRules

WireName = Literal["openai", "anthropic"]
#: Characters of a name that are compared with others.
_MAX_NAME_CHARS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedModel:
    """One model of the simulator; times are in simulated seconds.

    Attributes:
        regime: The name of its cache rules in ``proxy.caches.regimes``; "" caches nothing.
        provider: Whose rules, where those of one regime differ.
        min_cache_tokens: Prompts below this are never cached; None for the regime's own figure.
        prompt_cache_retention: Retention of calls that ask for none; "" for ``in_memory``.
        ttft: Time to the first token of an empty prompt.
        per_1k: Seconds that each 1,000 prompt tokens not read from the cache add to it.
        itl: Time between two tokens.
        words: About how long an answer is when nothing bounds it.
        traits: Names of what the model accepts, of ``proxy.catalog.entries.TRAITS``.
        dimensions: Length of its vectors; 0 for a model that writes text.
        asks_usage: True if a stream tells its usage only when asked; False where it does unasked
            and refuses to be asked, as Mistral.
        continues: Way in which chat goes on from the assistant's last message; "" for not.
    """

    wire: WireName = "openai"
    regime: str = "openai-breakpoint"
    provider: str = ""
    min_cache_tokens: int | None = None
    prompt_cache_retention: str = ""
    ttft: float = 0.35
    per_1k: float = 0.05
    itl: float = 0.012
    words: int = 60
    max_output: int = 16_384
    window: int | None = None
    traits: frozenset[str] = frozenset()
    dimensions: int = 0
    asks_usage: bool = True
    continues: Continues = ""
    schema_rules: SchemaRules | None = None


_OLDER = frozenset({"sampling", "forced_tools", "budget_thinking", "prefill"})
_NEWER = frozenset({"adaptive_thinking", "always_thinking", "mid_system", "structured"})

#: Enough models to meet each cache regime. Source: the providers' model pages (2026-11).
MODELS: Mapping[str, SimulatedModel] = {
    "gpt-6.1-sol": SimulatedModel(),
    "gpt-5.6-luna": SimulatedModel(ttft=0.2, per_1k=0.02, itl=0.006),
    "gpt-5.5": SimulatedModel(regime="openai-interval", prompt_cache_retention="24h"),
    "gpt-4o-mini": SimulatedModel(regime="openai-interval", traits=frozenset({"sampling"})),
    "claude-sonnet-5-5": SimulatedModel(
        wire="anthropic", regime="anthropic-breakpoint", min_cache_tokens=512, traits=_NEWER
    ),
    "claude-haiku-4-5": SimulatedModel(
        wire="anthropic",
        regime="anthropic-breakpoint",
        min_cache_tokens=4096,
        traits=_OLDER | {"structured"},
    ),
    "gemini-3.8-flash": SimulatedModel(regime="implicit"),
    "deepseek-flash": SimulatedModel(regime="prefix-unit"),
    "vllm-local": SimulatedModel(regime="block-chain", continues="continue_final_message"),
    "text-embedding-3-small": SimulatedModel(regime="", dimensions=1536, ttft=0.05, per_1k=0.005),
    "text-embedding-3-large": SimulatedModel(regime="", dimensions=3072, ttft=0.05, per_1k=0.005),
    "text-embedding-ada-002": SimulatedModel(regime="", dimensions=1536, ttft=0.05, per_1k=0.005),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """The settings of a simulator.

    Attributes:
        key: The only key it takes; "" takes any that is not empty.
        time_scale: Real seconds per simulated second; 0 never waits.
        keepalive: Real seconds between two keep-alives.
        max_records: Most exchanges, and most responses, that are remembered.
    """

    models: Mapping[str, SimulatedModel] = field(default_factory=lambda: MODELS)
    key: str = ""
    time_scale: float = 1.0
    keepalive: float = 0.05
    requests_per_minute: int = 100_000
    tokens_per_minute: int = 1_000_000_000
    max_records: int = 512


def served_name(models: Mapping[str, SimulatedModel], name: str) -> str:
    """The name of the model that is asked for, also by a dated snapshot of it; else unmodified."""
    undated = SNAPSHOT.sub("", name)
    return undated if name not in models and undated in models else name


def unknown_model(models: Mapping[str, SimulatedModel], name: str) -> str:
    """The sentence about a model that is not simulated, with a name that is like its own."""
    near = get_close_matches(name[:_MAX_NAME_CHARS], models, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"model: {name} does not exist in this simulator.{hint}"


def of_models(models: Iterable[Model]) -> dict[str, SimulatedModel]:
    """The simulated models of these catalog models' upstreams, with the catalog's behaviour.

    A name that several routes ask for behaves as the first of them; unknown rules cache nothing.
    The catalog knows no lengths of vectors: models that give some are in ``MODELS``.
    """
    served: dict[str, SimulatedModel] = {}
    for model in models:
        for route in model.routes:
            served.setdefault(route.model or model.id, _simulated_model(route))
    return served


def _simulated_model(route: Route) -> SimulatedModel:
    # Google's models are simulated by its OpenAI-compatible form.
    return SimulatedModel(
        wire="anthropic" if route.upstream.speaks_messages else "openai",
        regime=route.regime,
        provider=route.upstream.provider,
        min_cache_tokens=route.min_cache_tokens,
        prompt_cache_retention=route.prompt_cache_retention,
        window=route.window,
        max_output=route.max_output or 16_384,
        traits=route.traits,
        asks_usage=route.upstream.asks_usage,
        continues=route.continues,
        schema_rules=chat_schema_rules(route.upstream),
    )
