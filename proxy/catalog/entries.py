"""The entries of a checked catalog as frozen values: models, routes, upstreams."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from slo.price import Tariff
from slo.replica_cost import ReplicaPrice
from slo.toml.fields import Field, choice_of, set_of

Kind = Literal["openai", "anthropic", "anthropic-bedrock", "anthropic-vertex", "gemini"]
#: Ways in which requests prove whose they are: by a key, signed for AWS, by a token of Google's.
Auth = Literal["key", "aws", "google"]
#: Ways in which an upstream is told to go on from the assistant's last message; "" for none.
Continues = Literal["", "last_message", "continue_final_message", "prefix", "prefix_echoed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyFields:
    """Changes that an upstream needs in the bodies of calls that generate text.

    Attributes:
        add: JSON by field, in place of what the caller says there.
        rename: The upstream's name of a field by the caller's.
    """

    add: Mapping[str, bytes] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """Somewhere that answers completions; ``upstreams.FIELDS`` describes its fields.

    Attributes:
        base_url: Without a slash at its end; a query goes with every call.
        key_header: "" for the usual way of its kind.
        aws_region: "" unless ``auth`` is ``aws``.
        betas: None for all.
        engine: Engine profile of which it is a replica; "" where it is none.
        replica_price: Price of the machine behind it, by the hour; None for one that is not paid
            so.
    """

    name: str
    kind: Kind
    base_url: str
    key_env: str = ""
    key_header: str = ""
    auth: Auth = "key"
    aws_region: str = ""
    aws_profile: str = ""
    betas: frozenset[str] | None = None
    provider: str = ""
    region: str = ""
    asks_usage: bool = True
    serves_responses: bool = True
    drops_server_tools: bool = False
    bills_abandoned: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    body_fields: BodyFields | None = None
    shares_cache: bool = False
    hints: frozenset[str] = frozenset()
    adapts: bool = False
    continues: Continues = ""
    engine: str = ""
    replica_price: ReplicaPrice | None = None

    @property
    def speaks_messages(self) -> bool:
        """True if it takes bodies of Anthropic's Messages API, in whatever wrapping."""
        return self.kind.startswith("anthropic")

    @property
    def needs_credentials(self) -> bool:
        """True if it answers only callers with a key or an account there."""
        return bool(self.key_env) or self.auth != "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One way to serve a model; ``ROUTE_FIELDS`` describes its fields.

    Attributes:
        name: ``upstream/id`` with the model's public id; ``upstream/id#model`` where a model has
            several routes on one upstream. Unique in the catalog.
        model: "" forwards the caller's name, so that a dated snapshot stays the one asked for.
        tariff: Effective-dated prices; None when the price is unknown.
        can: None where the catalog does not say.
        has_own_price: True if its prices stand in a file of the operator's, False for the shipped
            ones.
        assumed_price_of: Predecessor whose prices are taken for its own; "" for none assumed.
        is_disabled: True while people have it disabled: no call goes there.
    """

    name: str
    upstream: Upstream
    model: str = ""
    tariff: Tariff | None = None
    window: int | None = None
    max_output: int | None = None
    regime: str = ""
    block: int | None = None
    min_cache_tokens: int | None = None
    prompt_cache_retention: str = ""
    traits: frozenset[str] = frozenset()
    can: frozenset[str] | None = None
    has_own_price: bool = False
    assumed_price_of: str = ""
    is_disabled: bool = False

    @property
    def continues(self) -> Continues:
        """The way in which its model goes on from the assistant's last message; "" for none."""
        return "last_message" if "prefill" in self.traits else self.upstream.continues


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A public name and the routes that serve it, at least one, in the order they are tried."""

    id: str
    routes: tuple[Route, ...]
    created: int = 0
    retires: date | None = None
    fallbacks: tuple[str, ...] = ()
    when_too_long: tuple[str, ...] = ()


#: Kinds of prompt caches; the rules are in ``proxy.caches``.
REGIMES = {
    "openai-breakpoint": "OpenAI from gpt-5.6 on: stored at breakpoints, writes are paid",
    "openai-interval": "OpenAI up to gpt-5.5: stored at intervals, per machine, writes are free",
    "anthropic-breakpoint": "Anthropic: stored at cache_control marks, writes are paid",
    "implicit": "undocumented and automatic: Gemini, Groq",
    "block-chain": "chains of equal blocks: Mistral 64 tokens, xAI 128, vLLM 16",
    "prefix-unit": "DeepSeek: whole prefix units",
}

#: Retentions of the regime ``openai-interval``.
#: Source: OpenAI, prompt caching guide, cache lifetime of earlier models (2026-09).
RETENTIONS = {
    "in_memory": "5 to 10 minutes without use, an hour at most",
    "24h": "some 30 minutes typically, a day at most",
}


#: Names of what a model may accept: what it answers in another model's place is translated by this.
#: Source: Anthropic, model pages and API versioning (2026-08 to 2026-11); OpenAI API reference,
#: create a chat completion, and reasoning guide (2026-11); its refusal of tools beside reasoning:
#: openai/openai-openapi 541 (2026-05), BerriAI/litellm 34569. Of the other providers they are what
#: is known of their OpenAI-compatible ways; a trait too many costs a refused attempt, no more.
TRAITS = {
    "max_tokens": "a chat call's max_tokens is accepted",
    "max_completion_tokens": "a chat call's max_completion_tokens is accepted",
    "sampling": "temperature and top_p are accepted (of the Messages API: top_k, too)",
    "sampling_at_none": "temperature and top_p are accepted with reasoning_effort none",
    "penalties": "presence_penalty and frequency_penalty are accepted",
    "logit_bias": "logit_bias is accepted",
    "extra_sampling": "top_k, min_p and repetition_penalty are accepted",
    "seed": "seed is accepted",
    "stop": "stop sequences are accepted",
    "choices": "n may be above 1",
    "logprobs": "logprobs are reported",
    "effort": "reasoning_effort is accepted: low, medium, high",
    "effort_none": "reasoning_effort may be none",
    "effort_minimal": "reasoning_effort may be minimal",
    "effort_xhigh": "reasoning_effort may be xhigh",
    "effort_max": "reasoning_effort may be max",
    "thinks_by_default": "it thinks unless told not to, and wants reasoning_content with its calls",
    "tools_at_none": "chat completions take function tools with reasoning_effort none only",
    "responses_only": "the Responses API alone is served, no chat completions",
    "verbosity": "verbosity is accepted",
    "prediction": "prediction is accepted",
    "developer": "the role developer is accepted",
    "parallel_tools": "parallel_tool_calls is accepted",
    "functions": "functions and function_call, the forerunners of tools, are accepted",
    "custom_tools": "tools of the type custom are accepted",
    "hosted_tools": "OpenAI's hosted tools are accepted",
    "openai_params": "OpenAI's own store, metadata, service_tier, user and the like are accepted",
    "forced_tools": "tool_choice any or tool is accepted",
    "adaptive_thinking": "thinking is asked for with adaptive and output_config.effort",
    "budget_thinking": "thinking is asked for with enabled and budget_tokens",
    "always_thinking": "thinking cannot be disabled",
    "bound_thinking": "thinking is refused once anything before it has changed",
    "mid_system": "system messages are accepted after the first user turn",
    "prefill": "the last message may be the assistant's",
    "structured": "output_config.format is accepted",
}


#: Kinds of hints that schedulers of self-hosted engines take.
HINTS = {
    "vllm": "the field priority; needs vLLM with --scheduling-policy priority",
    "llm-d": "llm-d's headers: latency limits, objective, team",
    "dynamo": "NVIDIA Dynamo's nvext.agent_hints: priority, expected output",
}


#: Ways in which upstreams go on from the assistant's last message, in chat completions. Claude's
#: models do up to 4.5, by the trait ``prefill``; OpenAI's do not.
#: Source: vLLM, OpenAI-compatible server, extra parameters; ggml-org/llama.cpp 23012 (2026-05);
#: DeepSeek, chat prefix completion (2026-11); Mistral, prefix, and its echo: SillyTavern 2557.
CONTINUES = {
    "last_message": "it always does where the assistant's message is the last",
    "continue_final_message": "it is told to in the body: vLLM, SGLang, llama.cpp, TGI",
    "prefix": "it is told to in that message: DeepSeek at `https://api.deepseek.com/beta`",
    "prefix_echoed": "the same, and its answer begins with that message again: Mistral",
}


#: Names of what a model can do, as far as it decides whether it can answer in another's place.
ABILITIES = {
    "tools": "calls tools",
    "schema": "keeps to a JSON schema",
    "vision": "sees images and reads files",
}

TOP_FIELDS = (
    Field("default", str, "openai", "the upstream of calls that name no model"),
    Field("default_upstream", str, "", "the upstream of names in no family; without it refused"),
    Field("families", list, (), "list: [unlisted models](#unlisted-models)", "as shipped"),
    Field("upstreams", dict, None, "tables by name", "as shipped"),
    Field("models", list, (), "list: one for each public name", "as shipped"),
    Field("teams", dict, None, "tables by the team's name: [model aliases](#model-aliases)"),
)
FAMILY_FIELDS = (
    Field("names", str, "", "a pattern: `*` is any text, `{base}` a listed model", "required"),
    Field("upstream", str, "", "the upstream that its members pass to", "required"),
    Field("like", str, "", "a listed model whose cache rules and traits they have"),
)
#: Fields of a route, which a model may state for all of its routes.
ROUTE_FIELDS = (
    Field("upstream", str, "", "where it goes; not beside `routes`; see below", "required"),
    Field("model", str, "", "the name that the upstream knows", "the caller's name"),
    Field("price", dict, None, 'a table, see [prices](#prices), or `"unknown"`', "unknown"),
    Field("discount", str, None, "contracted part taken off", "the upstream's"),
    Field("window", int, None, "most prompt tokens", "unknown"),
    Field("max_output", int, None, "most generated tokens", "unknown"),
    Field("regime", choice_of(REGIMES), "", "its [cache rules](#cache-rules)", "unknown"),
    Field("block", int, None, "tokens of a cache block; required for `block-chain`"),
    Field("min_cache_tokens", int, None, "shorter prompts are never cached", "the regime's"),
    Field("prompt_cache_retention", choice_of(RETENTIONS), "", "`in_memory`, `24h`", "unknown"),
    Field("traits", set_of(TRAITS), frozenset(), "list: it [accepts](#traits)", "the family's"),
    Field("can", set_of(ABILITIES), None, "list: `tools`, `schema`, `vision`, see below"),
)
MODEL_FIELDS = (
    Field("id", str, "", "the name callers use", "required"),
    Field("like", str, "", "another listed model: takes over its fields and its name upstream"),
    Field("routes", list, (), "list: several ways to serve it", "one route"),
    Field("fallbacks", list, (), "list: models that answer when its routes fail, in order"),
    Field("when_too_long", list, (), "list: models that answer where a prompt is too long for it"),
    Field("created", int, 0, "when it was published, in seconds since the epoch"),
    Field("retires", date, None, "the day its provider stops serving it, as a date"),
)
