"""Recorded calls of our own making, and a catalog with one model for each regime."""

from collections.abc import Sequence
from typing import Any

import orjson

from proxy.catalog.load import load
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall

Json = dict[str, Any]

CATALOG = load(
    """
default = "openai"
[upstreams.openai]
kind = "openai"
provider = "openai"
base_url = "https://openai.test/v1"
[upstreams.anthropic]
kind = "anthropic"
provider = "anthropic"
base_url = "https://anthropic.test/v1"
[upstreams.gpu]
kind = "openai"
provider = "vllm"
base_url = "http://gpu.test/v1"
[[models]]
id = "breakpoints"
upstream = "openai"
model = "gpt-6.1-sol"
regime = "openai-breakpoint"
min_cache_tokens = 64
[models.price]
input = "2"
cache_read = "0.2"
write_30m = "2.5"
output = "10"
[[models]]
id = "marks"
upstream = "anthropic"
regime = "anthropic-breakpoint"
min_cache_tokens = 64
[models.price]
input = "4"
cache_read = "0.4"
write_5m = "5"
output = "20"
[[models]]
id = "intervals"
upstream = "openai"
regime = "openai-interval"
price = { input = "2", cache_read = "0.2", output = "10" }
[[models]]
id = "blocks"
upstream = "gpu"
regime = "block-chain"
block = 16
[[models]]
id = "large"
upstream = "gpu"
regime = "block-chain"
block = 16
min_cache_tokens = 100_000
[[models]]
id = "units"
upstream = "gpu"
regime = "prefix-unit"
[[models]]
id = "uncached"
upstream = "gpu"
price = { input = "1", output = "2" }
""",
    None,
)
#: Lines of a text that is long enough for every cache here.
RULES = [f"Rule {number}: be brief, be kind, and cite paragraph {number}." for number in range(12)]


def prompt_reader(name: str, vocabulary: LineVocabulary) -> PromptReader:
    model = CATALOG.models[name]
    return PromptReader(model, model.routes[0], vocabulary)


def body(*messages: Json, **fields: Any) -> bytes:
    return orjson.dumps({"model": "any", "messages": messages, **fields})


def system(*lines: str) -> Json:
    return {"role": "system", "content": "\n".join(lines)}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def tool(name: str) -> Json:
    about = f"Looks for {name} in everything that was ever written down about it."
    return {"type": "function", "function": {"name": name, "description": about}}


def call(
    *messages: Json, reply: Json | None = None, conversation: str = "c", **more: Any
) -> RecordedCall:
    return RecordedCall(
        at=None,
        conversation=conversation,
        feature="f",
        body=body(*messages, **more),
        reply=orjson.dumps(reply),
    )


def with_times(
    calls: Sequence[RecordedCall], gap: float = 10.0
) -> list[tuple[float, RecordedCall]]:
    return [(number * gap, call) for number, call in enumerate(calls)]


def dialogue(first: Json, turns: int, conversation: str = "c") -> list[RecordedCall]:
    """A conversation that grows by a question and an answer at a time."""
    messages, calls = [first], []
    for turn in range(turns):
        messages.append(user(f"Question {turn} of {conversation}: what does rule {turn} say?"))
        answer = assistant(f"Rule {turn} says to be brief, to be kind, and to cite {turn}.")
        calls.append(call(*messages, reply=answer, conversation=conversation))
        messages.append(answer)
    return calls
