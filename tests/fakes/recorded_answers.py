"""Recorded calls of real agents to real providers, and an upstream that plays them again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from proxy.records.feature_mode import PlanningMode
from tests.fakes.gateway_fixture import ServedGateway, gateway_before

FOLDER = Path(__file__).resolve().parents[2] / "../shared/data/A/crewAIInc+crewAI"
_ENDPOINTS = ("chat/completions", "responses", "embeddings")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CATALOG = """
default = "recording"

[upstreams.recording]
kind = "openai"
base_url = "{url}"
"""
_MODEL = """
[[models]]
id = "{id}"
upstream = "recording"
price = {price}
"""


@dataclass(frozen=True, kw_only=True)
class RecordedExchange:
    """One recorded call; bodies are as they were sent, answers decompressed.

    Attributes:
        name: Where it was recorded, and its place there.
    """

    name: str
    endpoint: str
    asked: bytes
    status: int
    media: str
    answer: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The request's body, decoded."""
        read: dict[str, Any] = orjson.loads(self.asked)
        return read

    @property
    def is_stream(self) -> bool:
        return self.media.startswith("text/event-stream")

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The JSON objects of the answer, read without the gateway's own reader."""
        if not self.is_stream:
            return [orjson.loads(self.answer)]
        lines = self.answer.decode().splitlines()
        payloads = [
            line.removeprefix("data:").strip() for line in lines if line.startswith("data:")
        ]
        return [orjson.loads(payload) for payload in payloads if payload != "[DONE]"]


@cache
def recorded_calls() -> Sequence[RecordedExchange]:
    """All recorded calls; none where the recordings are absent."""
    return [recording for path in sorted(FOLDER.rglob("*.yaml")) for recording in _calls_in(path)]


def _calls_in(path: Path) -> Iterator[RecordedExchange]:
    try:
        whole = yaml.load(path.read_text(encoding="utf8"), Loader=_LOADER)  # noqa: S506 - a safe one
    except yaml.YAMLError:
        return
    for number, interaction in enumerate((whole or {}).get("interactions") or ()):
        request, answer = interaction["request"], interaction["response"]
        where = str(request.get("uri", "")).partition("?")[0]
        endpoint = next((one for one in _ENDPOINTS if where.endswith(one)), "")
        if endpoint and isinstance(request.get("body"), str):
            headers = {name.lower(): value[0] for name, value in answer["headers"].items()}
            yield RecordedExchange(
                name=f"{path.relative_to(FOLDER)}#{number}",
                endpoint=endpoint,
                asked=_with_model(request["body"].encode(), where),
                status=answer["status"]["code"],
                media=headers.get("content-type", ""),
                answer=answer["body"]["string"].encode(),
            )


def _with_model(body: bytes, where: str) -> bytes:
    """The body with the model's name, which some addresses carry instead."""
    if "model" in orjson.loads(body):
        return body
    _, _, rest = where.partition("/deployments/")
    return body[:-1] + b',"model":"' + (rest.partition("/")[0] or "any").encode() + b'"}'


class ReplayUpstream:
    """An upstream that gives each caller the recording it names in ``x-client-request-id``.

    Attributes:
        heard: The bodies that arrived, by recording.
    """

    def __init__(self, recorded: Mapping[str, RecordedExchange]) -> None:
        self._recorded = recorded
        self.heard: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        number = dict(scope["headers"])[b"x-client-request-id"].decode()
        self.heard[number] = await Request(scope, receive).body()
        recording = self._recorded[number]
        headers = {"content-type": recording.media}
        await Response(recording.answer, recording.status, headers)(scope, receive, send)


def replay_gateway(
    folder: Path, recorded: Mapping[str, RecordedExchange], player: ReplayUpstream
) -> AbstractAsyncContextManager[ServedGateway]:
    """A gateway that plans nothing, and whose only upstream plays those recordings."""
    models = sorted({recording.body["model"] for recording in recorded.values()})
    catalog = _CATALOG + "".join(_MODEL.replace("{id}", model) for model in models)
    return gateway_before(player, folder, catalog, planning=PlanningMode.OFF)
