"""An engine profile: one model on one engine, and everything that its command line depends on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum


class Engine(StrEnum):
    """An inference server that the gateway can start or attach to."""

    VLLM = "vllm"
    LLAMACPP = "llamacpp"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt-llm"


class ServingGoal(StrEnum):
    """The side of the trade between latency and throughput that a profile is tuned for."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    BALANCED = "balanced"


class SpeculativeMethod(StrEnum):
    """A source of draft tokens, which the model then verifies in one pass."""

    DRAFT_MODEL = "draft_model"
    NGRAM = "ngram"
    SUFFIX = "suffix"
    EAGLE3 = "eagle3"
    MTP = "mtp"

    @property
    def needs_draft(self) -> bool:
        """True if it needs the weights of a draft model."""
        return self in {SpeculativeMethod.DRAFT_MODEL, SpeculativeMethod.EAGLE3}


class KVDtype(StrEnum):
    """The number format of the KV cache."""

    AUTO = "auto"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


class DisaggregatedRole(StrEnum):
    """The phase that a replica serves where prefill and decode run on different replicas."""

    PREFILL = "prefill"
    DECODE = "decode"


class RollingOrder(StrEnum):
    """The order of the two steps in which a rolling change replaces a replica."""

    START_FIRST = "start_first"
    STOP_FIRST = "stop_first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The settings of speculative decoding.

    Attributes:
        draft: Path or Hugging Face id of the draft model or EAGLE-3 head; "" where none is needed.
        tokens: Draft tokens per step, K.
        ngram_min: Tokens at the end of the text that must be found earlier in it, at least.
        ngram_max: The same, at most.
    """

    method: SpeculativeMethod
    draft: str = ""
    tokens: int = 3
    ngram_min: int = 2
    ngram_max: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSpeculation:
    """Bounds within which the advisor chooses method and depth; fields as of ``Speculation``.

    Attributes:
        methods: Methods that it may take, the one to try first in front; () for a draft model where
            there is a draft, and n-grams.
    """

    methods: tuple[SpeculativeMethod, ...] = ()
    draft: str = ""
    ngram_min: int = 2
    ngram_max: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingSettings:
    """Prompts that are read ahead while a replica is idle.

    Attributes:
        system_prompts: System prompts read after each start of a replica; 0 for none.
        next_turn: True if the next turn of a conversation is read once one was answered.
        tokens_per_minute: Prompt tokens that may be read ahead in a minute, by all replicas.
    """

    system_prompts: int = 8
    next_turn: bool = True
    tokens_per_minute: int = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProfile:
    """One ``[engines.NAME]`` table; 0, "" and None leave a choice to the engine.

    The reference in ``README.md`` describes each field; a test fails for one that it lacks.

    Attributes:
        attached_urls: Base URLs of replicas that others run, up to and including ``/v1``.
        auto_speculation: Bounds of the advisor's choice; None where ``speculation`` is as written.
        control_replicas: The last so many replicas run without speculation, for comparison.
        price_per_gpu_hour: In nano-dollars; None where it is unknown.
    """

    name: str
    engine: Engine
    version: str = ""
    program: tuple[str, ...] = ()
    model: str = ""
    served_name: str = ""
    replicas: int = 1
    attached_urls: tuple[str, ...] = ()
    key_env: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    goal: ServingGoal = ServingGoal.BALANCED
    speculation: Speculation | None = None
    auto_speculation: AutoSpeculation | None = None
    control_replicas: int = 0
    kv_dtype: KVDtype = KVDtype.AUTO
    quantization: str = ""
    kv_offload_gb: Decimal = Decimal(0)
    cpu_offload_gb: Decimal = Decimal(0)
    prefix_caching: bool = True
    chunked_prefill: bool = True
    max_model_len: int = 0
    max_sequences: int = 0
    max_batched_tokens: int = 0
    threads: int = 0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    role: DisaggregatedRole | None = None
    tool_call_parser: str = ""
    reasoning_parser: str = ""
    kv_events: tuple[str, ...] = ()
    warming: WarmingSettings | None = None
    shares_cache: bool = False
    hints: tuple[str, ...] = ()
    region: str = ""
    gpu: str = ""
    gpus: int | None = None
    price_per_gpu_hour: int | None = None
    start_seconds: int = 600
    drain_seconds: int = 30
    rolling_order: RollingOrder | None = None
    extra_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    line: int = field(default=1, compare=False)

    @property
    def is_attached(self) -> bool:
        """True if others run its replicas, so that there is nothing to start."""
        return bool(self.attached_urls)

    @property
    def replica_count(self) -> int:
        """Replicas in all."""
        return len(self.attached_urls) or self.replicas

    @property
    def parallel_gpus(self) -> int:
        """GPUs that one replica needs by its parallel sizes."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica; 0 where it runs on processors alone."""
        return self.parallel_gpus if self.gpus is None else self.gpus

    @property
    def stops_first(self) -> bool:
        """True if a rolling change stops a replica before it starts the new one.

        An engine takes nearly all memory of its GPUs, so that two have no room on them.
        """
        if self.rolling_order is not None:
            return self.rolling_order is RollingOrder.STOP_FIRST
        return self.replicas > 1 and self.gpus_per_replica > 0

    @property
    def ports(self) -> range:
        """The ports of the replicas that the gateway starts."""
        return range(0) if self.is_attached else range(self.port, self.port + self.replicas)
