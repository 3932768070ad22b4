"""The adapter of each engine."""

from collections.abc import Mapping
from typing import Final

from proxy.engines.adapters.adapter import EngineAdapter
from proxy.engines.adapters.attach_only import SGLANG, TENSORRT_LLM
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profiles import Engine

ADAPTERS: Final[Mapping[Engine, EngineAdapter]] = {
    adapter.engine: adapter for adapter in (VLLM, LLAMACPP, SGLANG, TENSORRT_LLM)
}
