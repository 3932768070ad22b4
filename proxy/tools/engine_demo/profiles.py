"""The engines of the demonstration: one model, served plain, with a draft model, and with n-grams.

They are written as a user writes them, in TOML, and read by the same reader.
"""

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

from proxy.engines.profile_file import parse_profiles
from proxy.engines.profile_table import write_profile
from proxy.engines.profiles import EngineProfile
from proxy.records.receipt import dollars

PLAIN: Final = "acme-parcel"
DRAFTED: Final = "acme-parcel-draft"
NGRAM: Final = "acme-parcel-ngram"

_DRAFT_TOKENS: Final = 4
_NGRAM_TOKENS: Final = 16
_PRICE_NOTE: Final = "price_per_gpu_hour is that of the machine: there is no GPU"
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
    draft = str(model_file("draft.gguf"))
    speculation = {
        PLAIN: None,
        DRAFTED: {"method": "draft_model", "draft": draft, "tokens": _DRAFT_TOKENS},
        NGRAM: {"method": "ngram", "tokens": _NGRAM_TOKENS, "ngram_max": 4},
    }
    tables = (
        write_profile(name, _fields(name, port, price_per_hour, settings), [_PRICE_NOTE])
        for port, (name, settings) in zip(ports, speculation.items(), strict=True)
    )
    return "\n".join(tables)


def _fields(
    name: str, port: int, price: str, speculation: dict[str, object] | None
) -> dict[str, object]:
    more = ("--spec-draft-threads", "1") if name == DRAFTED else ()
    return {
        "engine": "llamacpp",
        "model": str(model_file("target.gguf")),
        "served_name": name,
        "port": port,
        "gpus": 0,
        "max_model_len": 4096,
        "max_sequences": 2,
        "price_per_gpu_hour": price,
        "start_seconds": 60,
        "drain_seconds": 5,
        "extra_args": [*_ARGUMENTS, *more],
        "speculative": speculation,
    }


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
