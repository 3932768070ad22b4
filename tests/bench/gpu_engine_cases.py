"""The cases of ``tests.bench.gpu_engine``: profiles of vLLM, and the runs that measure each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fakes.tiny_vllm_model import write_tiny_vllm_model

_VOCABULARY: Final = 128_256
_CONTEXT: Final = 131_072
#: The shape of Llama 3.1 8B: 8.03 billion weights.
_TARGET: Final = {
    "hidden_size": 4_096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": _VOCABULARY,
    "max_position_embeddings": _CONTEXT,
}
#: About the shape of Llama 3.2 1B, but with heads of 128: 1.27 billion weights.
_DRAFT: Final = {
    **_TARGET,
    "hidden_size": 2_048,
    "intermediate_size": 8_192,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "tie_word_embeddings": True,
}
#: Runs of `thriftgate bench latency`.
_PREFIX: Final = "--concurrency 1 --prompt-tokens 8000 --requests 8 --output-tokens 128"
_LOAD: Final = (
    "--concurrency 1,8,64 --prompt-tokens 1000 --prefix cold --requests 192 --duration 8"
    " --output-tokens 256"
)
_LONG: Final = (
    "--concurrency 64 --prompt-tokens 8000 --prefix cold --requests 128 --duration 60 --warmup 0"
    " --output-tokens 256"
)
_SHORT: Final = (
    "--concurrency 1,8 --prompt-tokens 300 --prefix cold --requests 96 --duration 6"
    " --output-tokens 256"
)
_QUESTIONS: Final = ("direct", "")
#: Each position accepts so much of what the one before it accepted.
_SYNTHETIC_ACCEPTANCE: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileCase:
    """A profile and its runs.

    Attributes:
        name: Its name.
        fields: Lines of its profile besides the common ones; ``{draft}`` is the draft's folder.
        extra_args: Arguments that no field of a profile writes.
        runs: Who is asked, ``direct`` or ``gateway``, and options; without options the engine gets
            questions of its training. () where it cannot start.
        is_trained: True for the tiny trained models in place of the large ones.
    """

    name: str
    fields: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()
    runs: tuple[tuple[str, str], ...] = ()
    is_trained: bool = False


def _synthetic(tokens: int) -> str:
    """A speculative setting whose acceptance is set, not that of the draft's text."""
    rates = [round(_SYNTHETIC_ACCEPTANCE ** (n + 1), 4) for n in range(tokens)]
    return json.dumps(
        {
            "method": "draft_model",
            "model": "{draft}",
            "num_speculative_tokens": tokens,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": rates,
        }
    )


_DRAFTED: Final = 'speculative = { method = "draft_model", draft = "{draft}", tokens = 4 }'
_NGRAM: Final = 'speculative = { method = "ngram", tokens = 4, ngram_min = 2, ngram_max = 4 }'
CASES: Final = {
    case.name: case
    for case in (
        ProfileCase(
            name="plain",
            runs=(
                ("direct", _PREFIX),
                ("gateway", _PREFIX),
                ("direct", _LOAD),
                ("gateway", _LOAD),
                ("direct", _LONG),
            ),
        ),
        ProfileCase(
            name="fp8-kv",
            fields=('kv_dtype = "fp8"',),
            runs=(("direct", _PREFIX), ("direct", _LOAD), ("direct", _LONG)),
        ),
        ProfileCase(name="ngram", fields=(_NGRAM,), runs=(("direct", _LOAD),)),
        ProfileCase(name="draft", fields=(_DRAFTED,), runs=(("direct", _LOAD),)),
        ProfileCase(
            name="draft-synthetic",
            extra_args=("--speculative-config", _synthetic(4)),
            runs=(("direct", _LOAD), ("gateway", _LOAD)),
        ),
        ProfileCase(name="trained-plain", is_trained=True, runs=(("direct", _SHORT), _QUESTIONS)),
        ProfileCase(
            name="trained-draft",
            is_trained=True,
            fields=(_DRAFTED,),
            runs=(("direct", _SHORT), ("gateway", _SHORT), _QUESTIONS),
        ),
        ProfileCase(name="no-kv-memory", extra_args=("--gpu-memory-utilization", "0.15")),
        ProfileCase(
            name="context-too-long",
            fields=("max_model_len = 131072",),
            extra_args=("--gpu-memory-utilization", "0.3"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Models:
    """Folders of the models: large ones without training, tiny ones with it; None if not given."""

    large: Path
    large_draft: Path
    trained: Path | None


def write_models(folder: Path, trained: Path | None) -> Models:
    """The models; those of the large shape are written unless they are there."""
    large, draft = folder / "large", folder / "large-draft"
    if not large.exists():
        write_tiny_vllm_model(large, **_TARGET)
        write_tiny_vllm_model(draft, **_DRAFT)
    return Models(large, draft, trained)


def engines_text(
    case: ProfileCase,
    models: Models,
    *,
    port: int,
    program: Sequence[str],
    version: str,
    env: Mapping[str, str],
    extra_args: Sequence[str],
) -> str:
    """The engines file of a case, with the profile ``chat``.

    Raises:
        ValueError: If the case needs trained models and none are given.
    """
    model, draft = models.large, models.large_draft
    arguments = [*extra_args, *case.extra_args]
    if case.is_trained:
        if models.trained is None:
            raise ValueError(f"{case.name} needs --trained")
        model, draft = models.trained / "target", models.trained / "draft"
    else:
        arguments += ["--load-format", "dummy"]
    lines = [
        "[engines.chat]",
        'engine = "vllm"',
        f"version = {json.dumps(version)}",
        f"program = {json.dumps([*program])}",
        f"model = {json.dumps(str(model))}",
        'served_name = "chat"',
        f"port = {port}",
        "drain_seconds = 5",
        f"extra_args = {json.dumps([each.replace('{draft}', str(draft)) for each in arguments])}",
        *(each.replace("{draft}", str(draft)) for each in case.fields),
    ]
    if not any(each.startswith("max_model_len") for each in lines):
        lines.append(f"max_model_len = {4_096 if case.is_trained else 16_384}")
    lines.append("[engines.chat.env]")
    lines += [f"{name} = {json.dumps(value)}" for name, value in env.items()]
    return "\n".join([*lines, ""])
