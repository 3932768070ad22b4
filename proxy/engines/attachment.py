"""Recognises a running engine by its HTTP pages, and writes a profile that attaches it; pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.metrics.metrics_page import parse_engine_properties, parse_metrics_page
from proxy.engines.profile_table import write_profile
from proxy.engines.profiles import Engine

#: The beginning of an engine's metric names, such as ``vllm:``.
_PREFIX: Final = re.compile(r"[a-z]+[:_]")
_VERSION: Final = re.compile(r"[vb]?\d{1,9}(\.\d{1,9}){0,3}")
#: The build of a llama.cpp that was built without its history, such as in wheels.
_NO_VERSIONS: Final = frozenset({"b0", "0"})
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePages:
    """Bodies of an engine's pages; b"" for one that it does not have.

    Attributes:
        models: ``/v1/models``.
        metrics: Its Prometheus metrics.
        version: ``/version``, which vLLM has.
        properties: ``/props``, which llama.cpp has.
    """

    models: bytes = b""
    metrics: bytes = b""
    version: bytes = b""
    properties: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedEngine:
    """An engine that was found at an address.

    Attributes:
        engine: Its kind; None where its pages do not tell.
        version: Its version; "" where it does not say, or in another form.
        cache_tokens: Room of its prefix cache; None where unknown.
        notes: Things that are missing, with what to do.
    """

    engine: Engine | None
    version: str
    models: tuple[str, ...]
    cache_tokens: int | None
    notes: tuple[str, ...]


def recognise_engine(pages: EnginePages) -> RecognisedEngine:
    """The engine that has these pages."""
    listed = _objects(pages.models)
    text = pages.metrics.decode(errors="replace")
    engine = _by_metrics(text) or _by_owner(listed)
    notes = []
    if not listed:
        notes.append("/v1/models names no model: is it an OpenAI-compatible address?")
    if engine is None:
        notes.append("Its pages do not say which engine it is: write engine = … yourself.")
        return RecognisedEngine(
            engine=None, version="", models=_ids(listed), cache_tokens=None, notes=tuple(notes)
        )
    adapter = ADAPTERS[engine]
    room = None
    try:
        metrics = parse_metrics_page(text, adapter)
    except ValueError as error:
        notes.append(f"Its metrics cannot be read ({error}): calls are routed without its load.")
    else:
        room = metrics.cache_tokens
        if not pages.metrics:
            needs = f"start it with {adapter.attach_needs}"
            notes.append(f"It has no metrics, so calls are routed without its load: {needs}.")
        elif metrics.shortcoming:
            notes.append(f"Of its metrics {metrics.shortcoming}.")
    properties = parse_engine_properties(pages.properties)
    room = room or (properties and properties.cache_tokens)
    if room is None:
        notes.append("It does not say the room of its prefix cache: 500,000 tokens are assumed.")
    return RecognisedEngine(
        engine=engine,
        version=_version(pages),
        models=_ids(listed),
        cache_tokens=room,
        notes=tuple(notes),
    )


def profile_table(
    recognised: RecognisedEngine,
    urls: Sequence[str],
    *,
    name: str = "",
    region: str = "",
    key_env: str = "",
) -> str:
    """The TOML table of a profile that attaches to these addresses.

    Args:
        urls: Its base URLs, up to and including ``/v1``.
        name: Name of the profile; "" takes the model's.
    """
    model = recognised.models[0] if recognised.models else ""
    named = name or _NAME.sub("-", model.rpartition("/")[2]).strip("-.")[:64] or "engine"
    fields = {
        "engine": str(recognised.engine or "vllm"),
        "version": recognised.version,
        "served_name": model,
        "replicas": list(urls),
        "region": region,
        "key_env": key_env,
    }
    return write_profile(named, fields)


def _by_metrics(text: str) -> Engine | None:
    """The engine whose metrics a page has."""
    lines = text.split("\n")
    for engine, adapter in ADAPTERS.items():
        prefix = _PREFIX.match(adapter.metrics.running[0])
        if prefix and any(line.startswith(prefix.group()) for line in lines):
            return engine
    return None


def _by_owner(listed: Sequence[Mapping[str, Any]]) -> Engine | None:
    """The engine that a list of models names as their owner, such as ``tensorrt_llm``."""
    owners = {str(model.get("owned_by", "")).lower() for model in listed}
    return next((engine for engine in Engine if engine.replace("-", "_") in owners), None)


def _version(pages: EnginePages) -> str:
    """The version of vLLM, or the build of llama.cpp; "" for a build without a number."""
    stated = _object(pages.version).get("version") or _object(pages.properties).get("build_info")
    match = _VERSION.match(stated) if isinstance(stated, str) else None
    return match.group() if match and match.group() not in _NO_VERSIONS else ""


def _objects(body: bytes) -> list[Mapping[str, Any]]:
    listed = _object(body).get("data")
    return (
        [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    )


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        value = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ids(listed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = (entry.get("id") for entry in listed)
    return tuple(name for name in names if isinstance(name, str) and name)
