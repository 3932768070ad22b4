"""Reads engine profiles from TOML: ``[engines.NAME]`` tables, every problem with line and fix."""

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeVar
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
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader, checked_choice, checked_value, describe_value

E = TypeVar("E", bound=StrEnum)

#: Fields of a profile's table, in the order in which the reference lists them.
KEYS: Final = (
    "engine", "version", "program", "model", "served_name", "replicas", "host", "port", "goal",
    "speculative", "kv_dtype", "quantization", "kv_offload_gb", "cpu_offload_gb",
    "prefix_caching", "chunked_prefill", "max_model_len", "max_sequences", "max_batched_tokens",
    "threads", "tensor_parallel", "pipeline_parallel", "data_parallel", "role", "tool_call_parser",
    "reasoning_parser", "kv_events", "warming", "shares_cache", "hints", "region", "key_env",
    "gpu", "gpus", "price_per_gpu_hour", "start_seconds", "drain_seconds", "rolling_order",
    "extra_args", "env",
)  # fmt: skip
SPECULATIVE_KEYS: Final = (
    "method", "methods", "draft", "tokens", "ngram_min", "ngram_max", "control_replicas",
)  # fmt: skip
WARMING_KEYS: Final = ("system_prompts", "next_turn", "tokens_per_minute")
_AUTO: Final = "auto"
_MAX_SYSTEM_PROMPTS: Final = 64

_MAX_REPLICAS: Final = 64
_MAX_PORT: Final = 65_535
_MAX_COUNT: Final = 2**31 - 1
_MAX_GB: Final = 65_536
_MAX_DRAFT_TOKENS: Final = 64
_VERSION: Final = re.compile(r"[vb]?\d{1,9}(\.\d{1,9}){0,3}([+.]?[a-z]+[0-9]*)?")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST: Final = re.compile(r"[A-Za-z0-9._:-]+")


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
        found = len(problems)
        table = TableReader(node, KEYS, problems)
        key_env = _matched_text(table, "key_env", _ENV_NAME, "ENGINE_API_KEY")
        profile = replace(_read_profile(name, table), key_env=key_env, line=node.line)
        if len(problems) == found:
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
    engine = table.member("engine", Engine) or Engine.VLLM
    speculation, auto_speculation, control_replicas = _speculation(table)
    model = table.text("model") or ""
    replicas, attached_urls = _replicas(table)
    return EngineProfile(
        name=name,
        engine=engine,
        version=_matched_text(table, "version", _VERSION, "0.33"),
        program=_program(table),
        model=model,
        served_name=table.text("served_name", "house-llm") or model,
        replicas=replicas,
        attached_urls=attached_urls,
        host=_matched_text(table, "host", _HOST, "127.0.0.1") or "127.0.0.1",
        port=_count(table, "port", 8_000, 1, _MAX_PORT),
        goal=_member(table, "goal", ServingGoal.BALANCED),
        speculation=speculation,
        auto_speculation=auto_speculation,
        control_replicas=control_replicas,
        kv_dtype=_member(table, "kv_dtype", KVDtype.AUTO),
        quantization=table.text("quantization", "fp8") or "",
        kv_offload_gb=_size(table, "kv_offload_gb"),
        cpu_offload_gb=_size(table, "cpu_offload_gb"),
        prefix_caching=table.flag("prefix_caching", default=True),
        chunked_prefill=table.flag("chunked_prefill", default=True),
        max_model_len=_count(table, "max_model_len", 0, 1),
        max_sequences=_count(table, "max_sequences", 0, 1),
        max_batched_tokens=_count(table, "max_batched_tokens", 0, 1),
        threads=_count(table, "threads", 0, 1, 1_024),
        tensor_parallel=_count(table, "tensor_parallel", 1, 1, 1_024),
        pipeline_parallel=_count(table, "pipeline_parallel", 1, 1, 1_024),
        data_parallel=_count(table, "data_parallel", 1, 1, 1_024),
        role=_optional_member(table, "role", DisaggregatedRole),
        tool_call_parser=table.text("tool_call_parser", "hermes") or "",
        reasoning_parser=table.text("reasoning_parser", "qwen3") or "",
        kv_events=tuple(_texts(table, "kv_events")),
        warming=_warming(table),
        shares_cache=table.flag("shares_cache", default=False),
        hints=_hints(table),
        region=table.text("region", "eu") or "",
        gpu=table.text("gpu", "H100") or "",
        gpus=_count(table, "gpus", 0, 0, 1_024) if "gpus" in table.nodes else None,
        price_per_gpu_hour=_price(table),
        start_seconds=_count(table, "start_seconds", 600, 1, 86_400),
        drain_seconds=_count(table, "drain_seconds", 30, 0, 86_400),
        rolling_order=_optional_member(table, "rolling_order", RollingOrder),
        extra_args=tuple(_texts(table, "extra_args")),
        env=_env(table),
    )


def _replicas(table: TableReader) -> tuple[int, tuple[str, ...]]:
    """The number of replicas to start, and the base URLs of those to attach to."""
    node = table.nodes.get("replicas")
    if node is None or not isinstance(node.value, list):
        return _count(table, "replicas", 1, 1, _MAX_REPLICAS), ()
    if not 0 < len(node.value) <= _MAX_REPLICAS:
        fix = f"write 1 to {_MAX_REPLICAS} base URLs, or a number of replicas to start"
        table.add_problem("replicas", f"lists {len(node.value)} URLs", fix)
    return 1, tuple(filter(None, (_base_url(each, table.problems) for each in node.value)))


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


def _program(table: TableReader) -> tuple[str, ...]:
    """A program and its first arguments, as a text or an array."""
    node = table.nodes.get("program")
    if node is None or isinstance(node.value, list):
        return tuple(_texts(table, "program"))
    text = table.text("program", "llama-server")
    if text == "":
        table.add_problem("program", "is empty", 'write program = "llama-server"')
    return (text,) if text else ()


def _texts(table: TableReader, key: str) -> Iterator[str]:
    """The strings of an array, none of them empty."""
    for node in table.elements(key):
        text = checked_value(node, str, table.problems)
        if text == "" or (text and "\0" in text):
            fix = "leave it out" if not text else "write it without the zero byte"
            table.problems.append(node.problem("is no argument of a command", fix))
        elif text:
            yield text


def _warming(table: TableReader) -> WarmingSettings | None:
    """The settings of warming; ``true`` stands for the usual ones, ``false`` for none."""
    node = table.nodes.get("warming")
    if node is None or isinstance(node.value, bool):
        return WarmingSettings() if table.flag("warming", default=False) else None
    fix = "write warming = true, or a { table }"
    if checked_value(node, dict, table.problems, fix) is None:
        return None
    inner, usual = TableReader(node, WARMING_KEYS, table.problems), WarmingSettings()
    return WarmingSettings(
        system_prompts=_count(
            inner, "system_prompts", usual.system_prompts, 0, _MAX_SYSTEM_PROMPTS
        ),
        next_turn=inner.flag("next_turn", default=usual.next_turn),
        tokens_per_minute=_count(inner, "tokens_per_minute", usual.tokens_per_minute, 1),
    )


def _hints(table: TableReader) -> tuple[str, ...]:
    found = (checked_choice(each, HINTS, table.problems) for each in table.elements("hints"))
    return tuple(dict.fromkeys(filter(None, found)))


def _env(table: TableReader) -> dict[str, str]:
    env = {}
    for name, node in table.entries("env").items():
        value = checked_value(node, str, table.problems)
        if not _ENV_NAME.fullmatch(name) or (value and "\0" in value):
            fix = 'write letters, digits and underscores, such as HF_HUB_OFFLINE = "1"'
            table.problems.append(node.problem("is no environment variable", fix))
        elif value is not None:
            env[name] = value
    return env


def _speculation(
    table: TableReader,
) -> tuple[Speculation | None, AutoSpeculation | None, int]:
    """Speculation as written or as the advisor may choose it, and the replicas without any."""
    node = table.nodes.get("speculative")
    if node is not None and node.value == _AUTO:
        return None, AutoSpeculation(), 0
    if node is None or not table.entries("speculative"):
        return None, None, 0
    inner = TableReader(node, SPECULATIVE_KEYS, table.problems)
    draft = inner.text("draft") or ""
    shortest = _count(inner, "ngram_min", 2, 1, _MAX_DRAFT_TOKENS)
    longest = _count(inner, "ngram_max", 4, 1, _MAX_DRAFT_TOKENS)
    control = _count(inner, "control_replicas", 0, 0, _MAX_REPLICAS)
    if shortest > longest:
        inner.add_problem("ngram_min", "is above ngram_max", f"write {longest} or less")
    if "method" in inner.nodes and inner.nodes["method"].value == _AUTO:
        if "tokens" in inner.nodes:
            inner.add_problem("tokens", "is chosen by the advisor", "leave it out")
        methods = _auto_methods(inner, draft)
        auto = AutoSpeculation(methods=methods, draft=draft, ngram_min=shortest, ngram_max=longest)
        return None, auto, control
    if "methods" in inner.nodes:
        inner.add_problem("methods", "is for the advisor", 'leave it out, or write method = "auto"')
    method = inner.member("method", SpeculativeMethod)
    if method is None:
        return None, None, 0
    _check_draft(inner, method, draft)
    tokens = _count(inner, "tokens", 3, 1, _MAX_DRAFT_TOKENS)
    speculation = Speculation(
        method=method, draft=draft, tokens=tokens, ngram_min=shortest, ngram_max=longest
    )
    return speculation, None, control


def _auto_methods(inner: TableReader, draft: str) -> tuple[SpeculativeMethod, ...]:
    """The methods that the advisor may take, in their order; () where none are listed."""
    known = tuple(SpeculativeMethod)
    names = (checked_choice(each, known, inner.problems) for each in inner.elements("methods"))
    methods = tuple(SpeculativeMethod(name) for name in dict.fromkeys(filter(None, names)))
    drafted = [each for each in methods if each.needs_draft]
    if len(drafted) > 1:
        what = f"names {' and '.join(drafted)}, whose drafts are different weights"
        inner.add_problem("methods", what, "leave one of them out")
    elif methods:
        _check_draft(inner, drafted[0] if drafted else methods[0], draft)
    return methods


def _check_draft(inner: TableReader, method: SpeculativeMethod, draft: str) -> None:
    if method.needs_draft and not draft:
        fix = 'write draft = "PATH" or its Hugging Face id'
        inner.add_problem("draft", f"is missing, and {method} needs one", fix)
    if draft and method in {SpeculativeMethod.NGRAM, SpeculativeMethod.SUFFIX}:
        inner.add_problem("draft", f"is not used by {method}", "leave it out")


def _member(table: TableReader, key: str, default: E) -> E:
    return table.member(key, type(default), default) or default


def _optional_member(table: TableReader, key: str, kind: type[E]) -> E | None:
    return table.member(key, kind) if key in table.nodes else None


def _matched_text(table: TableReader, key: str, pattern: re.Pattern[str], example: str) -> str:
    """The text of a key; a problem where it is not of the pattern."""
    text = table.text(key, example) or ""
    if key in table.nodes and isinstance(table.nodes[key].value, str):
        if pattern.fullmatch(text):
            return text
        table.add_problem(key, "is not of the right form", f'write {key} = "{example}"')
    return ""


def _count(table: TableReader, key: str, default: int, least: int, most: int = _MAX_COUNT) -> int:
    """A whole number of a range; the default where it is absent or out of it."""
    if key not in table.nodes:
        return default
    value = table.get(key, int)
    if value is not None and not least <= value <= most:
        table.add_problem(key, f"is {value}", f"write a whole number from {least} to {most}")
        return default
    return default if value is None else value


def _size(table: TableReader, key: str) -> Decimal:
    """GiB, whole or with decimals; 0 where it is absent."""
    node = table.nodes.get(key)
    if node is None:
        return Decimal(0)
    value = node.value
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_GB or round(value, 3) != value:
        fix = f"write GiB from 0 to {_MAX_GB}, such as 40 or 0.5"
        table.add_problem(key, f"is {describe_value(value)}", fix)
        return Decimal(0)
    return Decimal(value)


def _price(table: TableReader) -> int | None:
    """Nano-dollars of one GPU for an hour."""
    node = table.nodes.get("price_per_gpu_hour")
    return None if node is None else numbers.nanos(node, table.problems)
