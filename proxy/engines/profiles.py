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

    Attributes:
        name: Name of the table.
        version: Version of the engine whose flags are written; "" is the newest that is known.
        program: The program in place of the engine's usual one, with its first arguments.
        model: Path or Hugging Face id of the weights.
        served_name: The name under which calls ask for the model.
        replicas: Replicas that the gateway starts.
        key_env: Variable that holds the key of its API; "" where it asks for none.
        attached_urls: Base URLs of replicas that others run, up to and including ``/v1``.
        port: Port of the first replica; each further one takes the next.
        auto_speculation: Bounds of the advisor's choice; None where ``speculation`` is as written.
        control_replicas: The last so many replicas run without speculation, for comparison.
        kv_events: Where each replica publishes its KV events, by ZeroMQ; empty for nowhere.
        warming: Prompts read ahead while a replica is idle; None for nothing.
        shares_cache: True if teams may share its prefix cache; calls do not say whose they are.
        hints: Facts about calls that its scheduler is told, of ``proxy.catalog.entries.HINTS``.
        quantization: Number format of the weights, by the engine's own name for it.
        kv_offload_gb: Host memory for KV blocks that left GPU memory, per replica.
        cpu_offload_gb: Weights kept in host memory, per GPU.
        max_sequences: Sequences in one batch at most.
        max_batched_tokens: Tokens in one engine step at most.
        threads: Processor threads of one replica; 0 leaves it to the engine.
        gpus: GPUs of one replica; None is as many as its parallel sizes need.
        price_per_gpu_hour: Nano-dollars of one GPU for an hour; None where it is unknown.
        start_seconds: Seconds within which a replica must be healthy.
        drain_seconds: Seconds that running calls get when a replica stops.
        rolling_order: Order of a rolling change; None leaves it to ``stops_first``.
        extra_args: Arguments that are added to the command line as they are.
        line: Line of its table in its file.
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
