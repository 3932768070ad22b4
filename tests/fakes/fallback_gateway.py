"""A gateway whose models have others that answer in their place, asked with the official SDK."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai

from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import ServedGateway, gateway_before_models
from tests.fakes.plain_http import PLAIN

_CLAUDE = {"wire": "anthropic", "regime": "", "traits": frozenset({"sampling"})}
#: ``narrow`` and ``narrow-claude`` take fifty tokens.
MODELS = {
    "main": SimulatedModel(regime="", ttft=0.0, itl=0.0),
    "spare": SimulatedModel(regime="", ttft=0.0, itl=0.0),
    "narrow": SimulatedModel(regime="", ttft=0.0, itl=0.0, window=50),
    "narrow-claude": SimulatedModel(**_CLAUDE, ttft=0.0, itl=0.0, window=50),  # type: ignore[arg-type]
}
_CATALOG = """
[upstreams.lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[upstreams.lab-anthropic]
kind = "anthropic"
base_url = "{url}"
headers = {{ x-api-key = "sk-simulated" }}

[[models]]
id = "main"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "100" }}
fallbacks = ["spare"]

[[models]]
id = "spare"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "0.2", output = "1" }}

[[models]]
id = "narrow"
upstream = "lab"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "10" }}
when_too_long = ["narrow-claude", "spare"]

[[models]]
id = "narrow-claude"
upstream = "lab-anthropic"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "10" }}
traits = ["sampling"]
when_too_long = ["spare"]

[[models]]
id = "alone"
upstream = "lab"
model = "narrow"
window = 128_000
max_output = 4_096
price = {{ input = "2", output = "10" }}
"""
#: A prompt that ``narrow`` has no room for.
LONG = "Tell me of it, word by word, and of all that came before. " * 20


@dataclass(frozen=True)
class FallbackGateway(ServedGateway):
    """A running gateway with fallback routes, for one test."""

    sdk: openai.OpenAI
    lab: Simulator

    def ask(self, model: str, text: str = "Say something.", **fields: Any) -> Any:
        """The raw answer to a chat call of the SDK's, which tries once."""
        return self.sdk.chat.completions.with_raw_response.create(
            model=model, messages=[{"role": "user", "content": text}], **fields
        )


@asynccontextmanager
async def _second(
    folder: Path, policies: str, settings: dict[str, Any]
) -> AsyncIterator[FallbackGateway]:
    running = gateway_before_models(MODELS, folder, _CATALOG, policies, settings)
    async with running as (served, lab):
        plain = openai.DefaultHttpxClient(verify=PLAIN)
        with openai.OpenAI(
            base_url=served.url, api_key=served.key, max_retries=0, http_client=plain
        ) as sdk:
            yield FallbackGateway(**vars(served), sdk=sdk, lab=lab)


@contextmanager
def fallback_gateway(
    folder: Path, policies: str = "", **settings: Any
) -> Iterator[FallbackGateway]:
    """A running one; its settings are the gateway's, as keyword arguments."""
    with running_in_thread(lambda: _second(folder, policies, settings)) as fixture:
        yield fixture
