"""Techniques of self-hosted inference: where each is in effect, its flag per engine, its measure.

When each pays and what it costs stands in ``README.md``.

Flags of vLLM and llama.cpp are those that their adapters write. Flags of SGLang 0.5.23 were read in
its source, keys of TensorRT-LLM in its example configurations; neither was run.
Source: https://nvidia.github.io/TensorRT-LLM/ (2026-11); figures of the costs: the vLLM project's
blog of 2026-04-22 on fp8 KV, and the papers on EAGLE-3 and SuffixDecoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import Engine, EngineProfile

_EXAMPLES: Final = "techniques.toml"


@dataclass(frozen=True, slots=True)
class Technique:
    """One technique.

    Attributes:
        example: Its profile in ``techniques.toml``.
        when: It is in effect if one of these fields of a profile is set (True), at least a number,
            one of a list, or has a text in it.
        judged_by: Figures of the benchmark, or of the advisor, that tell whether it paid.
        flags: Its flag on each engine, and "" where the engine has none.
        bench: Options of ``thriftgate bench latency``, run once without it and once with it; ""
            where ``thriftgate engine advise`` measures it.
        url: URL to measure in place of the first replica's.
    """

    name: str
    example: str
    when: Mapping[str, bool | int | str | Sequence[str]]
    judged_by: str
    flags: Mapping[Engine, str]
    bench: str = ""
    url: str = ""

    def is_used(self, profile: EngineProfile) -> bool:
        """True for a profile in which it is in effect, also by default, on its engine."""
        if not self.flags[profile.engine]:
            return False
        method = "" if profile.speculation is None else profile.speculation.method
        return any(
            _fulfils(method if field == "method" else getattr(profile, field), condition)
            for field, condition in self.when.items()
        )

    def command(self, profile: EngineProfile) -> str:
        """The command that measures it on a profile's first replica."""
        if not self.bench:
            return f"thriftgate engine advise {profile.name}"
        url = self.url or ADAPTERS[profile.engine].urls(profile, 0).base_url
        return f"thriftgate bench latency {url} {self.bench}"


def _fulfils(value: object, condition: bool | int | str | Sequence[str]) -> bool:  # noqa: FBT001 - data
    if condition is True:
        return bool(value)
    if isinstance(condition, int):
        return isinstance(value, int) and value >= condition
    if isinstance(condition, str):
        return condition in str(value)
    return str(value) in condition


def _flags(vllm: str, llamacpp: str, sglang: str, tensorrt_llm: str) -> Mapping[Engine, str]:
    return dict(zip(Engine, (vllm, llamacpp, sglang, tensorrt_llm), strict=True))


_SPEED_UP: Final = "measured speed-up, from calls with drafts and without"
_KV_CHANGE: Final = "preempted calls, readings with calls that wait, tokens/s: before → after"
#: Makes streams run beside long prompts that arrive.
_LONG_PROMPTS: Final = (
    "--concurrency 16 --prompt-tokens 8000 --prefix cold --output-tokens 256 --requests 128 --json"
)
_STALLS: Final = "p99 of `icl_ms` (gaps between chunks) against p50 of `ttft_ms`"


def _speculation(name: str, method: str, example: str, sglang: str) -> Technique:
    trt = "speculative_config.decoding_type"
    sglang = f"--speculative-algorithm {sglang}"
    flags = _flags("--speculative-config", "--spec-type", sglang, trt)
    return Technique(name, example, {"method": [method]}, _SPEED_UP, flags)


def _weights(name: str, number_format: str, tensorrt_llm: str) -> Technique:
    flags = _flags("--quantization", "", f"--quantization {number_format}", tensorrt_llm)
    figures = "ITL p50 at 1 caller, tokens/s at 64; answers by your own evaluation"
    bench = "--concurrency 1,16,64 --prompt-tokens 1000 --prefix cold --requests 256"
    when = {"quantization": number_format}
    return Technique(name, f"{number_format}-weights", when, figures, flags, bench)


TECHNIQUES: Final = (
    _speculation("speculation: draft model", "draft_model", "draft-model", "STANDALONE"),
    _speculation("speculation: n-gram", "ngram", "ngram", "NGRAM"),
    Technique(
        "speculation: suffix",
        "suffix",
        {"method": ["suffix"]},
        _SPEED_UP,
        _flags("--speculative-config", "", "", ""),
    ),
    _speculation("speculation: EAGLE-3", "eagle3", "eagle3", "EAGLE3"),
    _speculation("speculation: MTP", "mtp", "mtp", "NEXTN"),
    Technique(
        "fp8 KV cache",
        "fp8-kv",
        {"kv_dtype": ["fp8"]},
        _KV_CHANGE,
        _flags("--kv-cache-dtype", "", "--kv-cache-dtype fp8_e4m3", "kv_cache_config.dtype: fp8"),
    ),
    Technique(
        "int4 KV cache",
        "int4-kv",
        {"kv_dtype": ["int4"]},
        _KV_CHANGE,
        _flags("--kv-cache-dtype", "--cache-type-k", "", ""),
    ),
    Technique(
        "KV offload",
        "kv-offload",
        {"kv_offload_gb": True},
        "cost: cold TTFT p50 and tokens/s; gain: delivered reuse in `engine status`",
        _flags(
            "--kv-offloading-size",
            "--cache-ram",
            "--enable-hierarchical-cache",
            "kv_cache_config.host_cache_size",
        ),
        "--concurrency 16 --prompt-tokens 8000 --prefix cold --requests 128",
    ),
    _weights("fp8 weights", "fp8", "a checkpoint in fp8"),
    _weights("AWQ weights", "awq", "a checkpoint in AWQ"),
    Technique(
        "prefix caching",
        "prefix-caching",
        {"prefix_caching": True},
        "warm TTFT p50, and the part of prompts read from the cache",
        _flags(
            "--enable-prefix-caching",
            "--cache-prompt",
            "on, unless --disable-radix-cache",
            "kv_cache_config.enable_block_reuse",
        ),
        "--concurrency 1,8 --prompt-tokens 8000 --prefix cold,warm",
    ),
    Technique(
        "continuous batching limits",
        "batching",
        {"max_sequences": True, "max_batched_tokens": True, "goal": ["latency", "throughput"]},
        "goodput, tokens/s, ITL p99",
        _flags("--max-num-seqs", "--parallel", "--max-running-requests", "max_batch_size"),
        "--concurrency 16,64,256 --prompt-tokens 1000 --prefix cold --requests 1024"
        " --goodput ttft:2000,itl:50",
    ),
    Technique(
        "chunked prefill",
        "chunked-prefill",
        {"chunked_prefill": True},
        _STALLS,
        _flags(
            "--enable-chunked-prefill",
            "--batch-size",
            "--chunked-prefill-size",
            "enable_chunked_prefill",
        ),
        _LONG_PROMPTS,
    ),
    Technique(
        "tensor parallelism",
        "tensor-parallel",
        {"tensor_parallel": 2},
        "ITL p50 at 1 caller; tokens/s at 64 ÷ GPUs",
        _flags("--tensor-parallel-size", "--split-mode", "--tp-size", "tensor_parallel_size"),
        "--concurrency 1,64 --prompt-tokens 2000 --prefix cold --requests 256",
    ),
    Technique(
        "CPU offload",
        "cpu-offload",
        {"cpu_offload_gb": True},
        "ITL p50 and tokens/s",
        _flags("--cpu-offload-gb", "", "--cpu-offload-gb", ""),
        "--concurrency 1,8 --prompt-tokens 1000 --prefix cold --duration 120 --timeout 600",
    ),
    Technique(
        "disaggregated prefill",
        "prefill",
        {"role": ["prefill", "decode"]},
        _STALLS,
        _flags("--kv-transfer-config", "", "--disaggregation-mode", "cache_transceiver_config"),
        _LONG_PROMPTS,
        "http://ROUTER:8000/v1",
    ),
)


def example_profiles() -> dict[str, EngineProfile]:
    """The shipped profiles: one for each technique, and one for this machine's processors."""
    return parse_profiles(example_text(), _EXAMPLES)


def example_text() -> str:
    """The shipped profiles, as TOML."""
    return resources.files("proxy.engines").joinpath(_EXAMPLES).read_text(encoding="utf8")


def used_techniques(profile: EngineProfile) -> tuple[Technique, ...]:
    """The techniques that are in effect in a profile, also by default, on its engine."""
    return tuple(technique for technique in TECHNIQUES if technique.is_used(profile))
