"""Runs llama.cpp's own HTTP server, which the ``xllamacpp`` wheel holds, as a process of its own.

``python -m proxy.engines.supervision.llamacpp_server --model model.gguf --port 8000``: flags have
the names of ``llama-server``. Only this imports ``xllamacpp``, which the extra ``[local]`` has.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from proxy.errors import how_to_install

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

#: Flags that set one attribute of xllamacpp's parameters: the attribute, and the value's type.
_VALUES: Final[dict[str, tuple[str, type]]] = {
    "--model": ("model.path", str),
    "--hf-repo": ("model.hf_repo", str),
    "--port": ("port", int),
    "--parallel": ("n_parallel", int),
    "--ctx-size": ("n_ctx", int),
    "--batch-size": ("n_batch", int),
    "--ubatch-size": ("n_ubatch", int),
    "--cache-ram": ("cache_ram_mib", int),
    "--n-gpu-layers": ("n_gpu_layers", int),
    "--chat-template": ("chat_template", str),
    "--threads": ("cpuparams.n_threads", int),
    "--threads-batch": ("cpuparams_batch.n_threads", int),
    "--threads-http": ("n_threads_http", int),
    "--spec-draft-model": ("speculative.draft.mparams.path", str),
    "--spec-draft-hf": ("speculative.draft.mparams.hf_repo", str),
    "--spec-draft-n-max": ("speculative.draft.n_max", int),
    "--spec-draft-n-min": ("speculative.draft.n_min", int),
    "--spec-draft-p-min": ("speculative.draft.p_min", float),
    "--spec-draft-threads": ("speculative.draft.cpuparams.n_threads", int),
    "--spec-ngram-simple-size-n": ("speculative.ngram_simple.size_n", int),
    "--spec-ngram-simple-size-m": ("speculative.ngram_simple.size_m", int),
    "--spec-ngram-simple-min-hits": ("speculative.ngram_simple.min_hits", int),
}
#: Flags without a value; each has a ``--no-`` form.
_SWITCHES: Final = {
    "--metrics": "endpoint_metrics",
    "--slots": "endpoint_slots",
    "--jinja": "use_jinja",
    "--cache-prompt": "cache_prompt",
    "--kv-unified": "kv_unified",
    "--warmup": "warmup",
    "--offline": "offline",
    "--ui": "ui",
}
#: Flags that name a member of an enumeration: the attribute, xllamacpp's class, the member's
#: beginning, and the words that are taken.
_CHOICES: Final[dict[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "--cache-type-k": ("cache_type_k", "ggml_type", "GGML_TYPE_", ("f16", "q8_0", "q4_0")),
    "--cache-type-v": ("cache_type_v", "ggml_type", "GGML_TYPE_", ("f16", "q8_0", "q4_0")),
    "--split-mode": (
        "split_mode",
        "llama_split_mode",
        "LLAMA_SPLIT_MODE_",
        ("none", "layer", "row"),
    ),
    "--flash-attn": (
        "flash_attn_type",
        "llama_flash_attn_type",
        "LLAMA_FLASH_ATTN_TYPE_",
        ("auto", "on", "off"),
    ),
    "--reasoning-format": (
        "reasoning_format",
        "common_reasoning_format",
        "COMMON_REASONING_FORMAT_",
        ("none", "auto", "deepseek", "deepseek-legacy"),
    ),
    "--spec-type": (
        "speculative.types",
        "common_speculative_type",
        "COMMON_SPECULATIVE_TYPE_",
        ("none", "draft-simple", "draft-eagle3", "draft-mtp", "ngram-simple", "ngram-mod"),
    ),
}
_MEMBERS: Final = {"on": "ENABLED", "off": "DISABLED"}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the flags; those that are absent keep xllamacpp's defaults."""
    parser = argparse.ArgumentParser(
        prog="python -m proxy.engines.supervision.llamacpp_server",
        description="Run llama.cpp's own HTTP server until SIGTERM; flags are llama-server's.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    for flag, (_, kind) in _VALUES.items():
        parser.add_argument(flag, type=kind, dest=flag)
    for flag in _SWITCHES:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, dest=flag)
    for flag, (_, _, _, words) in _CHOICES.items():
        parser.add_argument(flag, choices=words, dest=flag)
    parser.add_argument("--host", default="127.0.0.1", dest="--host")
    parser.add_argument("--alias", dest="--alias")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status."""
    options = vars(build_parser().parse_args(argv))
    if not {"--model", "--hf-repo"} & set(options):
        return _fail("There is no model. Write --model FILE.gguf, or --hf-repo OWNER/NAME.")
    try:
        import xllamacpp  # noqa: PLC0415 - the extra may be absent, and --help works without it
    except ImportError as error:
        why = str(error).rstrip(".")
        return _fail(f"xllamacpp cannot be imported ({why}): {how_to_install('local')}.")
    # Threads of the server inherit the mask, so that a signal reaches sigwait and none of them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, options))
    except RuntimeError as error:
        why = str(error).rstrip(".")
        return _fail(f"The server did not start: {why}. Check the model's path and the port.")
    _write_line(f"Listening at {server.listening_address}.")
    signal.sigwait(_STOP_SIGNALS)
    _write_line("Stopping.")
    del server  # its destructor ends the threads
    return 0


def _parameters(xllamacpp: Any, options: dict[str, Any]) -> Any:  # noqa: ANN401 - it ships no types
    """The parameters of xllamacpp as the flags say."""
    parameters = xllamacpp.CommonParams()
    parameters.hostnames = [options.pop("--host")]
    parameters.ui = False
    if "--alias" in options:
        parameters.model_alias = {options.pop("--alias")}
    for flag, value in options.items():
        if flag in _CHOICES:
            path, kind, prefix, _ = _CHOICES[flag]
            word = _MEMBERS.get(value, value.upper().replace("-", "_"))
            member = getattr(getattr(xllamacpp, kind), prefix + word)
            _assign(parameters, path, [member] if path == "speculative.types" else member)
        else:
            _assign(parameters, _VALUES[flag][0] if flag in _VALUES else _SWITCHES[flag], value)
    return parameters


def _assign(parameters: object, path: str, value: object) -> None:
    """Set the attribute that a dotted path names."""
    owner, _, name = path.rpartition(".")
    setattr(attrgetter(owner)(parameters) if owner else parameters, name, value)


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _fail(why: str) -> int:
    _write_line(why)
    return 1


if __name__ == "__main__":
    sys.exit(main())
