"""Engine profiles for tests: one by hand, any that can be launched, and the tiny model's files."""

from decimal import Decimal
from pathlib import Path

from hypothesis import strategies as st

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profile_checks import find_problems
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import (
    DisaggregatedRole,
    Engine,
    EngineProfile,
    KVDtype,
    ServingGoal,
    Speculation,
    SpeculativeMethod,
)
from proxy.tools.engine_demo.profiles import model_file


def a_profile(table: str, engine: str = "vllm") -> EngineProfile:
    """The profile of a table's text, with a model."""
    text = f'[engines.house]\nengine = "{engine}"\nmodel = "m.gguf"\n{table}'
    return parse_profiles(text, "engines.toml")["house"]


def written_flags(profile: EngineProfile) -> tuple[str, ...]:
    """The flags of its command line."""
    command = ADAPTERS[profile.engine].launch_command(profile)
    return tuple(part for flag in command.flags for part in flag.argv)


def tiny_models() -> Path:
    """The folder of the tiny model and its draft."""
    return model_file("target.gguf").parent


_WORDS = st.text("abcdefgh-/._' ", min_size=1, max_size=12)
_SIZES = st.sampled_from([Decimal(0), Decimal(4), Decimal("0.5")])


def _speculations(engine: Engine) -> st.SearchStrategy[Speculation | None]:
    methods = st.sampled_from(sorted(ADAPTERS[engine].speculative_methods))
    strategy = st.builds(
        lambda method, draft, tokens: Speculation(
            method=SpeculativeMethod(method),
            draft=draft if SpeculativeMethod(method).needs_draft else "",
            tokens=tokens,
        ),
        methods,
        _WORDS,
        st.integers(1, 8),
    )
    return st.none() | strategy


def _profiles(engine: Engine) -> st.SearchStrategy[EngineProfile]:
    counts = st.integers(0, 4_096)
    small = st.integers(1, 4)
    return st.builds(
        EngineProfile,
        name=st.just("house"),
        engine=st.just(engine),
        version=st.sampled_from(["", "0.20", "0.27.1", "0.33"] if engine is Engine.VLLM else [""]),
        model=_WORDS,
        served_name=_WORDS,
        replicas=small,
        port=st.integers(1_024, 65_000),
        goal=st.sampled_from(ServingGoal),
        speculation=_speculations(engine),
        kv_dtype=st.sampled_from(KVDtype),
        quantization=st.sampled_from(["", "fp8", "awq"]),
        kv_offload_gb=_SIZES,
        cpu_offload_gb=_SIZES,
        prefix_caching=st.booleans(),
        chunked_prefill=st.booleans(),
        max_model_len=counts,
        max_sequences=counts,
        max_batched_tokens=counts,
        tensor_parallel=small,
        pipeline_parallel=small,
        role=st.none() | st.sampled_from(DisaggregatedRole),
        tool_call_parser=st.sampled_from(["", "hermes"]),
        reasoning_parser=st.sampled_from(["", "auto"]),
        extra_args=st.lists(st.just("--seed"), max_size=1).map(tuple),
    )


def launchable_profiles() -> st.SearchStrategy[EngineProfile]:
    """Any valid profile of an engine that the gateway starts."""
    kinds = st.sampled_from([e for e in Engine if ADAPTERS[e].can_launch])
    return kinds.flatmap(_profiles).filter(lambda profile: not list(find_problems(profile)))


def profile_text(profile: EngineProfile) -> str:
    """A profile as TOML, for those that `launchable_profiles` makes."""
    fields = {
        key: getattr(profile, key)
        for key in (
            "engine", "version", "model", "served_name", "replicas", "port", "goal", "kv_dtype",
            "quantization", "kv_offload_gb", "cpu_offload_gb", "prefix_caching",
            "chunked_prefill", "max_model_len", "max_sequences", "max_batched_tokens",
            "tensor_parallel", "pipeline_parallel", "role", "tool_call_parser",
            "reasoning_parser",
        )
    }  # fmt: skip
    lines = [f"{key} = {_toml(value)}" for key, value in fields.items() if value or value is False]
    if profile.extra_args:
        lines.append(f"extra_args = [{', '.join(map(_toml, profile.extra_args))}]")
    if (speculation := profile.speculation) is not None:
        draft = f", draft = {_toml(speculation.draft)}" if speculation.draft else ""
        rest = f"tokens = {speculation.tokens}{draft}"
        lines.append(f'speculative = {{ method = "{speculation.method}", {rest} }}')
    return "\n".join([f"[engines.{profile.name}]", *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value}"
