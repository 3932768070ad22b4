"""The models of the do-no-harm table and their simulators: one for each cache, and odd providers.

The shipped catalog has no route to Azure, Bedrock, Fireworks or an engine of one's own, so routes
to these are added here, at made-up prices: a read is a tenth of a fresh token.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.configuration import read_catalog
from proxy.settings import Settings, read
from proxy.tools.demo.catalog import redirected_catalog
from proxy.tools.replay.prompts import LineVocabulary
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings, of_models
from proxy.tools.simulator.upstream import SimulatedExchange, Simulator
from tests.bench.accounted_calls import CallRecorder
from tests.fakes.chat_refusals import without_chat_refusals

#: Words of an answer: few, so that what is compared is what prompts cost.
_WORDS = 12
#: Exchanges that a simulator keeps.
_KEPT = 200_000
#: Where nobody answers.
NOWHERE = "http://127.0.0.1:9/v1"
_FREE = 'price = { input = "1", cache_read = "0.1", output = "4" }'
_PAID_30M = 'price = { input = "1", cache_read = "0.1", write_30m = "1.25", output = "4" }'
_PAID_5M = (
    'price = { input = "1", cache_read = "0.1", write_5m = "1.25", write_1h = "2", output = "4" }'
)
#: Upstream kind, provider, regime, price and the rest, by the model's name.
_ADDED: Mapping[str, tuple[str, str, str, str]] = {
    "azure-gpt-5.4": ("openai", "azure", "openai-interval", _FREE),
    "azure-gpt-5.6": ("openai", "azure", "openai-breakpoint", _PAID_30M),
    "bedrock-claude": ("anthropic", "bedrock", "anthropic-breakpoint", _PAID_5M),
    "fireworks-oss": ("openai", "fireworks", "implicit", _FREE),
    "sglang-own": ("openai", "sglang", "implicit", _FREE),
    "llamacpp-own": ("openai", "llamacpp", "implicit", _FREE),
    "vllm-own": ("openai", "vllm", "block-chain", f"block = 16\n{_FREE}"),
}
_TRAITS = 'traits = ["adaptive_thinking", "mid_system", "structured"]'
#: All models of the table, dearest regimes first.
MODELS: tuple[str, ...] = (
    "gpt-6.1-sol",
    "gpt-5.6-terra",
    "azure-gpt-5.6",
    "gpt-5.4",
    "gpt-5.5",
    "azure-gpt-5.4",
    "claude-sonnet-5-5",
    "claude-haiku-4-5",
    "bedrock-claude",
    "deepseek-flash",
    "gemini-3.8-flash",
    "openai/gpt-oss-120b",
    "mistral-large-4",
    "grok-4.7",
    "vllm-own",
    "fireworks-oss",
    "sglang-own",
    "llamacpp-own",
)
#: Live: every regime, and the providers that a gateway sends something of its own to.
LIVE: tuple[str, ...] = (
    "gpt-6.1-sol",
    "gpt-5.4",
    "azure-gpt-5.4",
    "claude-sonnet-5-5",
    "claude-haiku-4-5",
    "deepseek-flash",
    "gemini-3.8-flash",
    "mistral-large-4",
    "vllm-own",
    "fireworks-oss",
)
#: One for each regime, where there is little time.
FEW: tuple[str, ...] = (
    "gpt-6.1-sol",
    "gpt-5.4",
    "claude-sonnet-5-5",
    "deepseek-flash",
    "gemini-3.8-flash",
    "mistral-large-4",
    "vllm-own",
)
#: Those that take Anthropic's API as it is.
NATIVE: tuple[str, ...] = ("claude-sonnet-5-5", "claude-haiku-4-5", "bedrock-claude")


def catalog_text(url: str = NOWHERE) -> str:
    """A catalog over the shipped one that sends every call to ``url``."""
    shipped = read_catalog(read({}))
    added = "\n".join(_entry(name, url) for name in _ADDED)
    return f"{redirected_catalog(shipped, url)}\n{added}"


def catalog(folder: Path, url: str = NOWHERE) -> tuple[Catalog, Path]:
    """The catalog of the table, and its file in ``folder``."""
    file = folder / "catalog.toml"
    file.write_text(catalog_text(url))
    return read_catalog(Settings(folder=folder, catalog=file)), file


def model(models: Catalog, name: str) -> Model:
    """The model of that name.

    Raises:
        KeyError: If the catalog has none.
    """
    return models.models[name]


def _entry(name: str, url: str) -> str:
    kind, provider, regime, rest = _ADDED[name]
    header = "authorization" if kind == "openai" else "x-api-key"
    value = "Bearer sk-simulated" if kind == "openai" else "sk-simulated"
    return f"""
[upstreams.own-{name.replace(".", "-")}]
kind = "{kind}"
provider = "{provider}"
base_url = "{url}"
headers = {{ {header} = "{value}" }}

[[models]]
id = "{name}"
upstream = "own-{name.replace(".", "-")}"
regime = "{regime}"
window = 1_000_000
max_output = 8_192
can = ["tools", "schema", "vision"]
{_TRAITS}
{rest}
"""


@cache
def _models() -> Mapping[str, SimulatedModel]:
    with TemporaryDirectory() as folder:
        models, _ = catalog(Path(folder), NOWHERE)
    served = of_models(models.models.values())
    taking = without_chat_refusals(served, served)
    return {name: replace(each, words=_WORDS) for name, each in taking.items()}


#: Reads texts for all simulators of this process.
_vocabulary = cache(LineVocabulary)


def new_upstream(clock: Callable[[], float]) -> Simulator:
    """A simulator of all models of the table."""
    settings = SimulatorSettings(models=_models(), max_records=_KEPT)
    return Simulator(settings, clock=clock, sleep=asyncio.sleep, vocabulary=_vocabulary())


def call_recorders(upstreams: tuple[Simulator, Simulator]) -> tuple[CallRecorder, CallRecorder]:
    """Recorders of the calls of two simulators, for the second accounting."""
    first, second = upstreams
    return (
        CallRecorder(partial(_latest_exchange, first)),
        CallRecorder(partial(_latest_exchange, second)),
    )


def _latest_exchange(upstream: Simulator) -> SimulatedExchange:
    """The exchange that came last: the one that is served now."""
    return upstream.exchanges[-1]
