"""The engines of the demonstration: one model, served plain, with a draft model, and with n-grams.

They are written as a user writes them, in TOML, and read by the same reader.
"""

import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import EngineProfile
from proxy.records.receipt import dollars

PLAIN: Final = "acme-parcel"
DRAFTED: Final = "acme-parcel-draft"
NGRAM: Final = "acme-parcel-ngram"

_DRAFT_TOKENS: Final = 4
_NGRAM_TOKENS: Final = 16
#: One thread each: the engines take turns, and threads that wait for each other burn the time.
_ARGUMENTS: Final = ("--threads", "1", "--threads-batch", "1", "--threads-http", "2")


def model_file(name: str) -> Path:
    """The path of a file of the tiny model: ``target.gguf`` or ``draft.gguf``."""
    return Path(str(files("proxy.tools.engine_demo") / "model" / name))


def profiles_text(ports: Iterable[int], price_per_hour: str) -> str:
    """The engines file.

    Args:
        ports: Three free ports.
        price_per_hour: US dollars for an hour of the machine, as a decimal text.
    """
    draft = json.dumps(str(model_file("draft.gguf")))
    speculation = {
        PLAIN: "",
        DRAFTED: f'method = "draft_model", draft = {draft}, tokens = {_DRAFT_TOKENS}',
        NGRAM: f'method = "ngram", tokens = {_NGRAM_TOKENS}, ngram_max = 4',
    }
    lines = (
        line
        for port, (name, settings) in zip(ports, speculation.items(), strict=True)
        for line in _profile_lines(name, port, price_per_hour, settings)
    )
    return "\n".join(lines)


def _profile_lines(name: str, port: int, price: str, speculation: str) -> Iterator[str]:
    more = ("--spec-draft-threads", "1") if name == DRAFTED else ()
    yield f"[engines.{name}]"
    yield 'engine = "llamacpp"'
    yield f"model = {json.dumps(str(model_file('target.gguf')))}"
    yield f'served_name = "{name}"'
    yield f"port = {port}"
    yield "gpus = 0"
    yield "max_model_len = 4096"
    yield "max_sequences = 2"
    yield f'price_per_gpu_hour = "{price}"  # of the machine: there is no GPU'
    yield "start_seconds = 60"
    yield "drain_seconds = 5"
    yield f"extra_args = {json.dumps([*_ARGUMENTS, *more])}"
    if speculation:
        yield f"speculative = {{ {speculation} }}"


def read_profiles(text: str) -> dict[str, EngineProfile]:
    """The profiles of an engines file."""
    return parse_profiles(text, "engines.toml")


def catalog_text(profiles: Iterable[EngineProfile]) -> str:
    """A catalog in TOML that gives each profile a model of its name, on an upstream of its own."""
    return "\n".join(line for profile in profiles for line in _catalog_lines(profile))


def _catalog_lines(profile: EngineProfile) -> Iterator[str]:
    yield f"[upstreams.{profile.name}]"
    yield f'base_url = "http://{profile.host}:{profile.port}/v1"'
    yield "bills_abandoned = false"
    if profile.price_per_gpu_hour is not None:
        yield f'price_per_gpu_hour = "{dollars(profile.price_per_gpu_hour)}"'
        yield "gpus = 0"
    yield "[[models]]"
    yield f'id = "{profile.served_name}"'
    yield f'upstream = "{profile.name}"'
