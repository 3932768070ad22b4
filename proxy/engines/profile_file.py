"""Reads engine profiles from TOML: ``[engines.NAME]`` tables, every problem with line and fix."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from proxy.catalog import numbers
from proxy.catalog.entries import HINTS
from proxy.engines.profile_checks import find_problems, find_shared_ports
from proxy.engines.profiles import (
    AutoSpeculation,
    DisaggregatedRole,
    Engine,
    EngineProfile,
    KVDtype,
    RollingOrder,
    ServingGoal,
    Speculation,
    SpeculativeMethod,
    WarmingSettings,
)
from slo.policies.entries import NAME_PATTERN
from slo.toml.fields import Field, Kind, flag, keys, list_of, one_of, read_fields
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader, checked_value, describe_value

_MAX_REPLICAS: Final = 64
_MAX_COUNT: Final = 2**31 - 1
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VERSION: Final = re.compile(r"[vb]?\d{1,9}(\.\d{1,9}){0,3}([+.]?[a-z]+[0-9]*)?")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+")
_AUTO: Final = "auto"

_MAX_GB: Final = 65_536


def parse_profiles(text: str, file: str) -> dict[str, EngineProfile]:
    """The profiles of a text by name, in its order.

    Raises:
        InvalidFile: With every problem found.
    """
    problems: list[Problem] = []
    top = TableReader(parse_toml(text, file), ("engines",), problems)
    profiles: dict[str, EngineProfile] = {}
    tables: dict[str, TableReader] = {}
    for name, node in top.entries("engines").items():
        if not NAME_PATTERN.fullmatch(name):
            fix = "write up to 64 letters, digits, dots, dashes or underscores"
            problems.append(node.problem("has a name that cannot be typed", fix))
        problems_before = len(problems)
        table = TableReader(node, keys(FIELDS), problems)
        profile = _read_profile(name, table)
        if len(problems) == problems_before:
            for misfit in find_problems(profile):
                table.add_problem(*misfit)
        profiles[name], tables[name] = profile, table
    if not problems:
        for name, misfit in find_shared_ports(profiles.values()):
            tables[name].add_problem(*misfit)
    if problems:
        raise InvalidFile(problems)
    return profiles


def _read_profile(name: str, table: TableReader) -> EngineProfile:
    values = read_fields(table, FIELDS)
    values["replicas"], values["attached_urls"] = values["replicas"]
    values |= values.pop("speculative")
    values["served_name"] = values["served_name"] or values["model"]
    return EngineProfile(name=name, line=table.node.line, **values)


def _replicas(table: TableReader, field: Field) -> tuple[int, tuple[str, ...]]:
    """The number of replicas to start, and the base URLs of those to attach to."""
    node = table.nodes[field.key]
    if not isinstance(node.value, list):
        return _whole(1, _MAX_REPLICAS)(table, field) or 1, ()
    if not 0 < len(node.value) <= _MAX_REPLICAS:
        fix = f"write 1 to {_MAX_REPLICAS} base URLs, or a number of replicas to start"
        table.add_problem(field.key, f"lists {len(node.value)} URLs", fix)
    return 1, tuple(filter(None, (_base_url(url, table.problems) for url in node.value)))


def _base_url(node: Node, problems: list[Problem]) -> str:
    """The base URL of an attached replica, which ends in ``/v1``; "" where it is none."""
    fix = 'write "http://gpu1:8000/v1"'
    text = checked_value(node, str, problems, fix)
    if text is None:
        return ""
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    else:
        is_valid &= not (parts.username or parts.query or parts.fragment or re.search(r"\s", text))
    if not is_valid:
        problems.append(node.problem("is no address of a replica", fix))
        return ""
    return text.rstrip("/").removesuffix("/v1") + "/v1"


def _program(table: TableReader, field: Field) -> tuple[str, ...]:
    """A program and its first arguments, as a text or an array."""
    if isinstance(table.nodes[field.key].value, list):
        return _texts(table, field)
    text = table.text(field.key, "llama-server")
    if text == "":
        table.add_problem(field.key, "is empty", 'write program = "llama-server"')
    return (text,) if text else ()


def _texts(table: TableReader, field: Field) -> tuple[str, ...]:
    """The strings of an array, none of them empty."""
    texts = []
    for node in table.elements(field.key):
        text = checked_value(node, str, table.problems)
        if text == "" or (text and "\0" in text):
            fix = "leave it out" if not text else "write it without the zero byte"
            table.problems.append(node.problem("is no argument of a command", fix))
        elif text:
            texts.append(text)
    return tuple(texts)


def _warming(table: TableReader, field: Field) -> WarmingSettings | None:
    """The settings of warming; ``true`` stands for the usual ones, ``false`` for none."""
    node = table.nodes[field.key]
    if isinstance(node.value, bool):
        return WarmingSettings() if node.value else None
    fix = "write warming = true, or a { table }"
    if checked_value(node, dict, table.problems, fix) is None:
        return None
    inner = TableReader(node, keys(WARMING_FIELDS), table.problems)
    return WarmingSettings(**read_fields(inner, WARMING_FIELDS))


def _env(table: TableReader, field: Field) -> dict[str, str]:
    env = {}
    for name, node in table.entries(field.key).items():
        value = checked_value(node, str, table.problems)
        if not _ENV_NAME.fullmatch(name) or (value and "\0" in value):
            fix = 'write letters, digits and underscores, such as HF_HUB_OFFLINE = "1"'
            table.problems.append(node.problem("is no environment variable", fix))
        elif value is not None:
            env[name] = value
    return env


def _speculation(table: TableReader, field: Field) -> dict[str, Any]:
    """Speculation as written or as the advisor may choose it, and the replicas without any."""
    node = table.nodes[field.key]
    if node.value == _AUTO:
        return {"auto_speculation": AutoSpeculation()}
    if not table.entries(field.key):
        return {}
    inner = TableReader(node, keys(SPECULATIVE_FIELDS), table.problems)
    values = read_fields(inner, SPECULATIVE_FIELDS)
    method, methods, control = (
        values.pop(key) for key in ("method", "methods", "control_replicas")
    )
    if values["ngram_min"] > values["ngram_max"]:
        fix = f"write {values['ngram_max']} or less"
        inner.add_problem("ngram_min", "is above ngram_max", fix)
    if method == _AUTO:
        if "tokens" in inner.nodes:
            inner.add_problem("tokens", "is chosen by the advisor", "leave it out")
        _check_methods(inner, methods, values["draft"])
        del values["tokens"]
        auto = AutoSpeculation(methods=methods, **values)
        return {"auto_speculation": auto, "control_replicas": control}
    if "methods" in inner.nodes:
        inner.add_problem("methods", "is for the advisor", 'leave it out, or write method = "auto"')
    if method is None:
        return {}
    _check_draft(inner, method, values["draft"])
    return {"speculation": Speculation(method=method, **values), "control_replicas": control}


def _method(table: TableReader, field: Field) -> str | None:
    is_auto = table.nodes[field.key].value == _AUTO
    return _AUTO if is_auto else table.member(field.key, SpeculativeMethod)


def _methods(table: TableReader, field: Field) -> tuple[SpeculativeMethod, ...]:
    names = list_of(tuple(SpeculativeMethod))(table, field)
    return tuple(SpeculativeMethod(name) for name in names)


def _check_methods(inner: TableReader, methods: Sequence[SpeculativeMethod], draft: str) -> None:
    """Report methods of the advisor that need different drafts, or none where there is one."""
    drafted = [method for method in methods if method.needs_draft]
    if len(drafted) > 1:
        what = f"names {' and '.join(drafted)}, whose drafts are different weights"
        inner.add_problem("methods", what, "leave one of them out")
    elif methods:
        _check_draft(inner, drafted[0] if drafted else methods[0], draft)


def _check_draft(inner: TableReader, method: SpeculativeMethod, draft: str) -> None:
    if method.needs_draft and not draft:
        fix = 'write draft = "PATH" or its Hugging Face id'
        inner.add_problem("draft", f"is missing, and {method} needs one", fix)
    if draft and method in {SpeculativeMethod.NGRAM, SpeculativeMethod.SUFFIX}:
        inner.add_problem("draft", f"is not used by {method}", "leave it out")


def _form(pattern: re.Pattern[str]) -> Callable[[TableReader, Field], str | None]:
    """Reads a text of this form."""

    def read(table: TableReader, field: Field) -> str | None:
        text = table.text(field.key, field.example)
        if text is None or pattern.fullmatch(text):
            return text
        fix = f'write {field.key} = "{field.example}"'
        table.add_problem(field.key, "is not of the right form", fix)
        return None

    return read


def _whole(least: int = 1, most: int = _MAX_COUNT) -> Callable[[TableReader, Field], int | None]:
    """Reads a whole number of this range."""

    def read(table: TableReader, field: Field) -> int | None:
        value = table.get(field.key, int)
        if value is None or least <= value <= most:
            return value
        fix = f"write a whole number from {least} to {most}"
        table.add_problem(field.key, f"is {value}", fix)
        return None

    return read


def _size(table: TableReader, field: Field) -> Decimal:
    """GiB, whole or with decimals."""
    value = table.nodes[field.key].value
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_GB or round(value, 3) != value:
        fix = f"write GiB from 0 to {_MAX_GB}, such as 40 or 0.5"
        table.add_problem(field.key, f"is {describe_value(value)}", fix)
        return Decimal(0)
    return Decimal(value)


def _price(table: TableReader, field: Field) -> int | None:
    """Nano-dollars of one GPU for an hour."""
    return numbers.nanos(table.nodes[field.key], table.problems)


_USUAL: Final = EngineProfile(name="", engine=Engine.VLLM)
_USUAL_WARMING: Final = WarmingSettings()


def _field(key: str, kind: Kind, meaning: str, shown: str = "", example: str = "") -> Field:
    """A field whose default is that of a profile."""
    return Field(key, kind, getattr(_USUAL, key), meaning, shown, example=example)


FIELDS: Final = (
    Field(
        "engine",
        Engine,
        None,
        "`vllm`, `llamacpp`, `sglang`, `tensorrt-llm`",
        missing=one_of(Engine),
    ),
    _field("version", _form(_VERSION), "its [version](#versions)", "newest known", "0.33"),
    _field("program", _program, "in place of `vllm serve` or llama.cpp's wheel, as text or array"),
    _field("model", str, "path or Hugging Face id of the weights", "required to start"),
    _field("served_name", str, "name that calls ask for; required to attach", "`model`"),
    Field("replicas", _replicas, (1, ()), "number to start, or base URLs of those that run", "1"),
    _field("host", _form(_HOST), "address of the replicas", example="127.0.0.1"),
    _field("port", _whole(1, 65_535), "port of the first replica; each further one takes the next"),
    _field("goal", ServingGoal, "`latency`, `throughput`, `balanced`: see [goals](#goals)"),
    Field("speculative", _speculation, {}, "a table, or `auto`: see [speculation](#speculation)"),
    _field("kv_dtype", KVDtype, "KV cache as `fp8`, `int8` or `int4`, see below"),
    _field("quantization", str, "of the weights: `fp8`, `awq`, `gptq`, …", "the checkpoint's"),
    _field("kv_offload_gb", _size, "GiB of host memory per replica for KV blocks", "0"),
    _field("cpu_offload_gb", _size, "GiB of weights per GPU in host memory; vLLM only", "0"),
    _field("prefix_caching", bool, "keeps prefixes that may return"),
    _field("chunked_prefill", bool, "splits long prompts over several steps"),
    _field("max_model_len", _whole(), "longest prompt and answer together, tokens", "the model's"),
    _field("max_sequences", _whole(), "sequences in one batch; llama.cpp's slots", "the goal's"),
    _field("max_batched_tokens", _whole(), "tokens in one step", "the goal's"),
    _field("threads", _whole(1, 1_024), "processor threads of a replica; llama.cpp", "every core"),
    _field("tensor_parallel", _whole(1, 1_024), "GPUs that share a layer"),
    _field("pipeline_parallel", _whole(1, 1_024), "stages of layers"),
    _field("data_parallel", _whole(1, 1_024), "engines behind one port"),
    _field("role", DisaggregatedRole, "`prefill` or `decode` where they are apart; vLLM", "both"),
    _field("tool_call_parser", str, "vLLM's parser of tool calls"),
    _field("reasoning_parser", str, "vLLM's parser of reasoning, or llama.cpp's, see below"),
    _field("kv_events", _texts, "where each replica publishes KV events: [exact](#exact-mode)"),
    _field("warming", _warming, "`true`, or a table: see [warming](#warming)", "off"),
    _field("shares_cache", bool, "teams may read each other's prompts from its prefix cache"),
    _field("hints", list_of(HINTS), "what schedulers are [told](#hints-for-schedulers)"),
    _field("region", str, "region of the replicas"),
    _field("key_env", _form(_ENV_NAME), "variable with the key of its API", "", "ENGINE_API_KEY"),
    _field("gpu", str, "GPU model, for reports"),
    _field("gpus", _whole(0, 1_024), "GPUs of one replica; 0 for none", "by parallel sizes"),
    _field("price_per_gpu_hour", _price, "US dollars of one GPU for an hour, a string", "unknown"),
    _field("start_seconds", _whole(1, 86_400), "seconds within which a replica must be healthy"),
    _field("drain_seconds", _whole(0, 86_400), "seconds for running calls when a replica stops"),
    _field("rolling_order", RollingOrder, "see [rolling change](#rolling-change)", "by GPUs"),
    _field("extra_args", _texts, "arguments added as they are"),
    _field("env", _env, "environment variables"),
)
SPECULATIVE_FIELDS: Final = (
    Field("method", _method, None, "as above, or `auto`", missing=one_of(SpeculativeMethod)),
    Field("methods", _methods, (), "list: what the advisor may take", "n-grams, and the draft"),
    Field("draft", str, "", "path or Hugging Face id of the draft model or head"),
    Field("tokens", _whole(1, 64), 3, "draft tokens per step"),
    Field("ngram_min", _whole(1, 64), 2, "tokens that must be found earlier, at least"),
    Field("ngram_max", _whole(1, 64), 4, "the same, at most"),
    Field("control_replicas", _whole(0, _MAX_REPLICAS), 0, "last replicas without speculation"),
)
WARMING_FIELDS: Final = (
    Field(
        "system_prompts", _whole(0, 64), _USUAL_WARMING.system_prompts, "prompts after each start"
    ),
    flag("next_turn", "reads the next turn of a conversation", default=_USUAL_WARMING.next_turn),
    Field(
        "tokens_per_minute",
        _whole(),
        _USUAL_WARMING.tokens_per_minute,
        "prompt tokens that may be read ahead in a minute, by all replicas",
    ),
)
