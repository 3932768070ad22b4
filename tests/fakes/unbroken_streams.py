"""A gateway whose streams are continued, before a simulator that cuts them; and its account."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

from proxy.providers.sse import parse_events
from proxy.records.receipt import Receipt
from proxy.tools.simulator.models import SimulatedModel
from proxy.tools.simulator.upstream import SimulatedExchange, Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import ServedGateway, gateway_before_models
from tests.fakes.plain_http import PLAIN

_AT_ONCE: dict[str, Any] = {"regime": "", "ttft": 0.0, "itl": 0.0}
_CLAUDE: dict[str, Any] = {"wire": "anthropic", "traits": frozenset({"prefill", "sampling"})}
MODELS = {
    "gpt-4o": SimulatedModel(**_AT_ONCE),
    "engine": SimulatedModel(**_AT_ONCE, continues="continue_final_message"),
    "mistral": SimulatedModel(**_AT_ONCE, continues="prefix_echoed", asks_usage=False),
    "claude-one": SimulatedModel(**_AT_ONCE, **_CLAUDE),
    "claude-two": SimulatedModel(**_AT_ONCE, **_CLAUDE),
}
_CATALOG = """
[upstreams.openai-lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}

[upstreams.engine-lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}
continues = "continue_final_message"

[upstreams.mistral-lab]
kind = "openai"
base_url = "{url}"
headers = {{ authorization = "Bearer sk-simulated" }}
asks_usage = false
serves_responses = false
continues = "prefix_echoed"

[upstreams.claude-lab]
kind = "anthropic"
base_url = "{url}"
headers = {{ x-api-key = "sk-simulated" }}

[[models]]
id = "writer"
price = {{ input = "1", output = "10" }}
max_output = 4096
routes = [
  {{ upstream = "openai-lab", model = "gpt-4o" }},
  {{ upstream = "engine-lab", model = "engine" }},
]

[[models]]
id = "poet"
price = {{ input = "1", output = "10" }}
max_output = 4096
routes = [
  {{ upstream = "openai-lab", model = "gpt-4o" }},
  {{ upstream = "mistral-lab", model = "mistral" }},
]

[[models]]
id = "claude"
price = {{ input = "1", output = "10" }}
max_output = 4096
traits = ["prefill", "sampling"]
routes = [
  {{ upstream = "claude-lab", model = "claude-one" }},
  {{ upstream = "claude-lab", model = "claude-two" }},
]

[[models]]
id = "lonely"
price = {{ input = "1", output = "10" }}
max_output = 4096
upstream = "openai-lab"
model = "gpt-4o"
"""
POLICY = '[[stream_continuation]]\nname = "all"\nmax_continuations = 3\n'
#: Models by the API they are asked in.
APIS = (
    ("chat/completions", "writer"),
    ("chat/completions", "poet"),
    ("chat/completions", "claude"),
    ("responses", "writer"),
    ("messages", "claude"),
    ("messages", "writer"),
)


@dataclass(frozen=True)
class StreamedAnswer:
    """A stream as its caller read it.

    Attributes:
        text: All text of its deltas.
        whole_texts: Texts that its closing events repeat whole.
        names: Ids of the answer, by the events that name it.
        trailer: The account at its end.
    """

    call_id: str
    text: str
    events: list[dict[str, Any]]
    whole_texts: list[str]
    names: set[str]
    error: str
    has_ended: bool
    trailer: dict[str, str]


@dataclass(frozen=True)
class UnbrokenGateway(ServedGateway):
    """A running gateway whose streams are continued."""

    lab: Simulator
    client: httpx.Client

    def ask(
        self,
        endpoint: str,
        model: str,
        text: str,
        cues: tuple[str, ...] = (),
        **fields: Any,
    ) -> StreamedAnswer:
        """The stream of a call, whose attempts meet these faults one after the other."""
        self.lab._script.clear()
        self.lab.queue_directives([*cues, *["ok"] * 4])
        self.lab.exchanges.clear()
        answer = self.client.post(
            f"{self.url}/{endpoint}",
            json=_body(endpoint, model, text) | fields,
            headers={"x-api-key": self.key, "x-thriftgate-trailer": "1"},
        )
        return _read(endpoint, answer)

    def exchanges(self) -> list[SimulatedExchange]:
        """Exchanges of the last call that the simulator answered, in order."""
        return [exchange for exchange in self.lab.exchanges if exchange.status == 200]


def account(lab: Simulator, exchange: SimulatedExchange) -> tuple[int, int] | None:
    """Tokens that the simulator read and wrote: of a stream that it cut, what it had sent.

    None for one that ended with an error before it had content.
    """
    assert exchange.usage is not None
    sent = bytes(exchange.sent)
    text = _streamed_text(sent)
    if any(mark in sent for mark in (b"[DONE]", b"message_stop", b"response.completed")):
        return exchange.usage.prompt_tokens, exchange.usage.output
    opened = int(b"message_start" in sent)  # Anthropic's first event counts a token
    if not text and not opened and b'"error"' in sent:
        return None
    return exchange.usage.prompt_tokens, max(len(lab.vocabulary.ids(text)), opened)


def booked_tokens(receipts: list[Receipt]) -> list[tuple[int, int]]:
    """The same of the receipts, in order."""
    usages = [receipt.usage for receipt in receipts if receipt.usage is not None]
    return [(usage.prompt_tokens, usage.output) for usage in usages]


def _body(endpoint: str, model: str, text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    common = {"model": model, "stream": True}
    if endpoint == "responses":
        return common | {"input": text}
    if endpoint == "messages":
        return common | {"messages": messages, "max_tokens": 4000}
    if model == "poet":  # Mistral refuses stream_options
        return common | {"messages": messages}
    return common | {"messages": messages, "stream_options": {"include_usage": True}}


@dataclass
class _Reading:
    pieces: list[str] = field(default_factory=list)
    wholes: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    error: str = ""
    has_ended: bool = False

    def read(self, event: dict[str, Any]) -> None:
        kind = event.get("type", "")
        if event.get("error") and kind in {"", "error"}:
            self.error = str(event["error"].get("code") or event["error"].get("message"))
        for choice in event.get("choices", ()):
            self.pieces.append(choice["delta"].get("content") or "")
            self.has_ended = self.has_ended or choice["finish_reason"] == "stop"
        self.names |= _names_in(event)
        if isinstance(delta := event.get("delta"), str):
            self.pieces.append(delta)
        elif isinstance(delta, dict):
            self.pieces.append(delta.get("text", ""))
        if kind == "response.output_text.done":
            self.wholes.append(event["text"])
        items = event.get("response", {}).get("output", [])
        self.wholes += [item["content"][0]["text"] for item in items]
        self.has_ended = self.has_ended or kind in {"message_stop", "response.completed"}


def _names_in(event: dict[str, Any]) -> set[str]:
    """Ids of the answer that an event names."""
    named = (event if "choices" in event else {}, event.get("message", {}), event.get("response"))
    return {place["id"] for place in named if isinstance(place, dict) and "id" in place}


def _read(endpoint: str, answer: httpx.Response) -> StreamedAnswer:
    reading, trailer = _Reading(), {}
    events = []
    for event in parse_events(answer.content):
        if event.data == b"[DONE]":
            continue
        document = orjson.loads(event.data)
        events.append(document)
        reading.read(document)
    for line in answer.text.splitlines():
        if line.startswith(": thriftgate "):
            trailer = orjson.loads(line.removeprefix(": thriftgate "))
    return StreamedAnswer(
        call_id=answer.headers["x-request-id"],
        text="".join(reading.pieces),
        events=events,
        whole_texts=reading.wholes,
        names=reading.names,
        error=reading.error,
        has_ended=reading.has_ended,
        trailer=trailer,
    )


def _streamed_text(sent: bytes) -> str:
    """The text of the whole events that an upstream sent."""
    reading = _Reading()
    whole = sent[: sent.rfind(b"\n\n") + 2]
    for event in parse_events(whole):
        if event.data != b"[DONE]":
            reading.read(orjson.loads(event.data))
    return "".join(reading.pieces)


@asynccontextmanager
async def _opened(
    folder: Path, policies: str, settings: dict[str, Any]
) -> AsyncIterator[UnbrokenGateway]:
    running = gateway_before_models(MODELS, folder, _CATALOG, policies, settings)
    async with running as (served, lab):
        with httpx.Client(verify=PLAIN, timeout=60) as client:
            yield UnbrokenGateway(**vars(served), lab=lab, client=client)


@contextmanager
def unbroken_gateway(
    folder: Path, policies: str = POLICY, **settings: Any
) -> Iterator[UnbrokenGateway]:
    """A running one; its settings are the gateway's, as keyword arguments."""
    with running_in_thread(lambda: _opened(folder, policies, settings)) as fixture:
        yield fixture
