"""Reads engine profiles from TOML: ``[engines.NAME]`` tables, every problem with line and fix."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, get_args, get_type_hints
from urllib.parse import urlsplit

from proxy.catalog import numbers
from proxy.catalog.entries import HINTS
from proxy.engines.profile_checks import find_problems, find_shared_ports
from proxy.engines.profiles import (
    AutoSpeculation,
    Engine,
    EngineProfile,
    Speculation,
    SpeculativeMethod,
    WarmingSettings,
)
from slo.policies.entries import NAME_PATTERN
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader, checked_choice, checked_value, describe_value

#: Attributes of a profile that are not keys of its table, and the keys of others.
_NO_KEYS: Final = frozenset(
    {"name", "attached_urls", "auto_speculation", "control_replicas", "line"}
)
_RENAMED: Final = {"speculation": "speculative"}
_TYPES: Final = {
    name: kind for name, kind in get_type_hints(EngineProfile).items() if name not in _NO_KEYS
}
#: Keys of a profile's table.
KEYS: Final = tuple(_RENAMED.get(name, name) for name in _TYPES)
_MAX_REPLICAS: Final = 64
_MAX_COUNT: Final = 2**31 - 1
#: Bounds of whole numbers; others are 1 to ``_MAX_COUNT``.
_BOUNDS: Final = {
    "replicas": (1, _MAX_REPLICAS),
    "port": (1, 65_535),
    "threads": (1, 1_024),
    "tensor_parallel": (1, 1_024),
    "pipeline_parallel": (1, 1_024),
    "data_parallel": (1, 1_024),
    "gpus": (0, 1_024),
    "start_seconds": (1, 86_400),
    "drain_seconds": (0, 86_400),
    "tokens": (1, 64),
    "ngram_min": (1, 64),
    "ngram_max": (1, 64),
    "control_replicas": (0, _MAX_REPLICAS),
    "system_prompts": (0, 64),
}
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Forms of texts that have one, each with an example.
_FORMS: Final = {
    "version": (re.compile(r"[vb]?\d{1,9}(\.\d{1,9}){0,3}([+.]?[a-z]+[0-9]*)?"), "0.33"),
    "host": (re.compile(r"[A-Za-z0-9._:-]+"), "127.0.0.1"),
    "key_env": (_ENV_NAME, "ENGINE_API_KEY"),
}
SPECULATIVE_KEYS: Final = (
    "method", "methods", "draft", "tokens", "ngram_min", "ngram_max", "control_replicas",
)  # fmt: skip
WARMING_KEYS: Final = ("system_prompts", "next_turn", "tokens_per_minute")
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
        table = TableReader(node, KEYS, problems)
        profile = replace(_read_profile(name, table), line=node.line)
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
    speculation, auto_speculation, control_replicas = _speculation(table)
    replicas, attached_urls = _replicas(table)
    values: dict[str, Any] = {
        attribute: _read_value(table, attribute, kind)
        for attribute, kind in _TYPES.items()
        if attribute not in {"engine", "replicas", "speculation"}
    }
    values["served_name"] = values["served_name"] or values["model"]
    return EngineProfile(
        name=name,
        engine=table.member("engine", Engine) or Engine.VLLM,
        replicas=replicas,
        attached_urls=attached_urls,
        speculation=speculation,
        auto_speculation=auto_speculation,
        control_replicas=control_replicas,
        **values,
    )


def _read_value(table: TableReader, key: str, kind: Any) -> object:  # noqa: ANN401 - any type
    """The value of a key by its own reader or that of its type; the default if it is absent."""
    default = getattr(_DEFAULTS, key)
    if key not in table.nodes:
        return default
    if key in _READERS:
        return _READERS[key](table, key)
    kind = next((inner for inner in get_args(kind) if isinstance(inner, type)), kind)
    if issubclass(kind, StrEnum):
        return table.member(key, kind, default) or default
    if kind is bool:
        return table.flag(key, default=default)
    value = _count(table, key, default) if kind is int else _text(table, key)
    return default if value is None else value


_DEFAULTS: Final = EngineProfile(name="", engine=Engine.VLLM)


def _replicas(table: TableReader) -> tuple[int, tuple[str, ...]]:
    """The number of replicas to start, and the base URLs of those to attach to."""
    node = table.nodes.get("replicas")
    if node is None or not isinstance(node.value, list):
        return _count(table, "replicas", 1), ()
    if not 0 < len(node.value) <= _MAX_REPLICAS:
        fix = f"write 1 to {_MAX_REPLICAS} base URLs, or a number of replicas to start"
        table.add_problem("replicas", f"lists {len(node.value)} URLs", fix)
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


def _program(table: TableReader, key: str) -> tuple[str, ...]:
    """A program and its first arguments, as a text or an array."""
    if isinstance(table.nodes[key].value, list):
        return _texts(table, key)
    text = table.text(key, "llama-server")
    if text == "":
        table.add_problem(key, "is empty", 'write program = "llama-server"')
    return (text,) if text else ()


def _texts(table: TableReader, key: str) -> tuple[str, ...]:
    """The strings of an array, none of them empty."""
    texts = []
    for node in table.elements(key):
        text = checked_value(node, str, table.problems)
        if text == "" or (text and "\0" in text):
            fix = "leave it out" if not text else "write it without the zero byte"
            table.problems.append(node.problem("is no argument of a command", fix))
        elif text:
            texts.append(text)
    return tuple(texts)


def _warming(table: TableReader, key: str) -> WarmingSettings | None:
    """The settings of warming; ``true`` stands for the usual ones, ``false`` for none."""
    node = table.nodes[key]
    if isinstance(node.value, bool):
        return WarmingSettings() if node.value else None
    fix = "write warming = true, or a { table }"
    if checked_value(node, dict, table.problems, fix) is None:
        return None
    inner, usual = TableReader(node, WARMING_KEYS, table.problems), WarmingSettings()
    return WarmingSettings(
        system_prompts=_count(inner, "system_prompts", usual.system_prompts),
        next_turn=inner.flag("next_turn", default=usual.next_turn),
        tokens_per_minute=_count(inner, "tokens_per_minute", usual.tokens_per_minute),
    )


def _hints(table: TableReader, key: str) -> tuple[str, ...]:
    names = (checked_choice(node, HINTS, table.problems) for node in table.elements(key))
    return tuple(dict.fromkeys(filter(None, names)))


def _env(table: TableReader, key: str) -> dict[str, str]:
    env = {}
    for name, node in table.entries(key).items():
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
    shortest = _count(inner, "ngram_min", 2)
    longest = _count(inner, "ngram_max", 4)
    control = _count(inner, "control_replicas", 0)
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
    tokens = _count(inner, "tokens", 3)
    speculation = Speculation(
        method=method, draft=draft, tokens=tokens, ngram_min=shortest, ngram_max=longest
    )
    return speculation, None, control


def _auto_methods(inner: TableReader, draft: str) -> tuple[SpeculativeMethod, ...]:
    """The methods that the advisor may take, in their order; () where none are listed."""
    supported = tuple(SpeculativeMethod)
    names = (
        checked_choice(element, supported, inner.problems) for element in inner.elements("methods")
    )
    methods = tuple(SpeculativeMethod(name) for name in dict.fromkeys(filter(None, names)))
    drafted = [method for method in methods if method.needs_draft]
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


def _text(table: TableReader, key: str) -> str | None:
    """The text of a key; None with a problem where it is not of its form."""
    pattern, example = _FORMS.get(key, (None, ""))
    text = table.text(key, example)
    if text is None or pattern is None or pattern.fullmatch(text):
        return text
    table.add_problem(key, "is not of the right form", f'write {key} = "{example}"')
    return None


def _count(table: TableReader, key: str, default: int) -> int:
    """A whole number of a range; the default where it is absent or out of it."""
    if key not in table.nodes:
        return default
    least, most = _BOUNDS.get(key, (1, _MAX_COUNT))
    value = table.get(key, int)
    if value is not None and not least <= value <= most:
        table.add_problem(key, f"is {value}", f"write a whole number from {least} to {most}")
        return default
    return default if value is None else value


def _size(table: TableReader, key: str) -> Decimal:
    """GiB, whole or with decimals."""
    value = table.nodes[key].value
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MAX_GB or round(value, 3) != value:
        fix = f"write GiB from 0 to {_MAX_GB}, such as 40 or 0.5"
        table.add_problem(key, f"is {describe_value(value)}", fix)
        return Decimal(0)
    return Decimal(value)


def _price(table: TableReader, key: str) -> int | None:
    """Nano-dollars of one GPU for an hour."""
    return numbers.nanos(table.nodes[key], table.problems)


#: Readers of keys that no type describes.
_READERS: Final[Mapping[str, Callable[[TableReader, str], object]]] = {
    "program": _program,
    "kv_offload_gb": _size,
    "cpu_offload_gb": _size,
    "kv_events": _texts,
    "warming": _warming,
    "hints": _hints,
    "price_per_gpu_hour": _price,
    "extra_args": _texts,
    "env": _env,
}
