"""The adapter of each engine, and the catalog entries that it gives for a profile."""

from collections.abc import Mapping
from typing import Final

from proxy.catalog.engine_layer import EngineEntry
from proxy.engines.adapters.adapter import EngineAdapter
from proxy.engines.adapters.attach_only import SGLANG, TENSORRT_LLM
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profiles import Engine, EngineProfile
from proxy.records.receipt import dollars

ADAPTERS: Final[Mapping[Engine, EngineAdapter]] = {
    adapter.engine: adapter for adapter in (VLLM, LLAMACPP, SGLANG, TENSORRT_LLM)
}


def catalog_entry(profile: EngineProfile, file: str) -> EngineEntry:
    """The profile's entry of the catalog: its replicas as upstreams of one model."""
    adapter, price = ADAPTERS[profile.engine], profile.price_per_gpu_hour
    return EngineEntry(
        profile=profile.name,
        file=file,
        line=profile.line,
        served_name=profile.served_name,
        base_urls=tuple(
            adapter.urls(profile, number).base_url for number in range(profile.replica_count)
        ),
        upstream={
            "provider": str(profile.engine),
            "region": profile.region,
            "key_env": profile.key_env,
            "serves_responses": adapter.serves_responses,
            "continues": adapter.continues,
            "shares_cache": profile.shares_cache,
            "hints": profile.hints,
            "gpus": profile.gpus_per_replica,
            "price_per_gpu_hour": "" if price is None else dollars(price),
        },
        route={
            "regime": adapter.regime if profile.prefix_caching else "",
            "block": adapter.block_tokens if profile.prefix_caching else 0,
            "window": profile.max_model_len,
        },
    )
