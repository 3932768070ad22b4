"""Recorded calls of real agents to real providers, and an upstream that plays them again."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from starlette.types import ASGIApp, Receive, Scope, Send

from proxy.app import gateway
from proxy.records.feature_mode import PlanningMode
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from tests.fakes.databases import migrated_sqlite
from tests.fakes.gateway_fixture import PRICE

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
        heard, more = b"", True
        while more:
            message = await receive()
            heard += message.get("body", b"")
            more = message.get("more_body", False)
        number = dict(scope["headers"])[b"x-client-request-id"].decode()
        self.heard[number] = heard
        recording = self._recorded[number]
        headers = [(b"content-type", recording.media.encode())]
        await send({"type": "http.response.start", "status": recording.status, "headers": headers})
        await send({"type": "http.response.body", "body": recording.answer, "more_body": False})


@dataclass(frozen=True)
class ReplayGateway:
    """A gateway before a player."""

    url: str
    key: str
    player: ASGIApp
    heard: Mapping[str, bytes]
    receipts: Any


@asynccontextmanager
async def replay_gateway(
    folder: Path, recorded: Mapping[str, RecordedExchange]
) -> AsyncIterator[ReplayGateway]:
    """A gateway that plans nothing, and whose only upstream plays those recordings."""
    player = ReplayUpstream(recorded)
    async with serving(player) as upstream:
        models = sorted({recording.body["model"] for recording in recorded.values()})
        catalog = folder / "catalog.toml"
        catalog.write_text(
            _CATALOG.format(url=upstream)
            + "".join(_MODEL.format(id=model, price=PRICE) for model in models)
        )
        chosen = Settings(
            folder=folder / "gateway", catalog=catalog, retries=0, planning=PlanningMode.OFF
        )
        migrated_sqlite(chosen.folder / "thriftgate.db")
        async with gateway(chosen) as running, serving(running.app) as url:
            store = running.store
            team = store.teams.create("acme", now=1_790_000_000.0)
            _, key = store.teams.create_key(team.id, "first", now=1_790_000_000.0)

            def receipts(call_id: str) -> Any:
                return store.ledger.call_receipts(call_id, team.id)

            yield ReplayGateway(
                url=url, key=key, player=player, heard=player.heard, receipts=receipts
            )
            assert store.drain.flush(20)
