"""A gateway before a Bedrock and a Vertex AI, with accounts at both."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from proxy.settings import Settings
from proxy.tools.simulator.app import app
from proxy.tools.simulator.models import SimulatedModel, SimulatorSettings
from proxy.tools.simulator.server import serving
from proxy.tools.simulator.upstream import Simulator
from tests.fakes.background_loop import running_in_thread
from tests.fakes.cloud_upstreams import REGION, BedrockUpstream, VertexUpstream
from tests.fakes.gateway_fixture import PRICE, TRAITS, GatewayFixture, served_gateway
from tests.fakes.plain_http import PLAIN

ACCOUNT, SECRET, SESSION = "AKIDEXAMPLE", "wJalrXUtnFEMI", "session-token-1"
VERSION = {"anthropic_version": "2023-06-01"}
#: Names of the model at each, as its caller knows it.
BEDROCK, VERTEX = "claude-aws", "claude-google"
_CATALOG = """
default = "bedrock"

[upstreams.bedrock]
kind = "anthropic-bedrock"
base_url = "{bedrock}"
aws_region = "{region}"
{more}

[upstreams.vertex]
kind = "anthropic-vertex"
base_url = "{vertex}/v1/projects/acme-1/locations/global"

[[models]]
id = "claude-aws"
upstream = "bedrock"
model = "us.anthropic.claude-lab-v1:0"
regime = "anthropic-breakpoint"
min_cache_tokens = 512
price = {price}
max_output = 4096
traits = {traits}

[[models]]
id = "claude-google"
like = "claude-aws"
upstream = "vertex"
model = "claude-lab@20260101"
"""


@dataclass(frozen=True)
class CloudGateway(GatewayFixture):
    """A running gateway, for one test."""

    bedrock: BedrockUpstream
    vertex: VertexUpstream

    def upstream(self, model: str) -> BedrockUpstream | VertexUpstream:
        """The upstream that answers a model."""
        return self.bedrock if model == BEDROCK else self.vertex

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        """The answer to a call with the team's key."""
        return httpx.post(
            f"{self.url}/{path}", json=body, headers=self.headers(headers), verify=PLAIN, timeout=30
        )

    def message(self, model: str, words: str, **fields: Any) -> httpx.Response:
        """The answer to a Messages call of one turn."""
        return self.post("messages", message(model, words, **fields), **VERSION)

    def chat(self, model: str, words: str, **fields: Any) -> httpx.Response:
        """The answer to a chat call of one turn."""
        turns = [{"role": "user", "content": words}]
        return self.post("chat/completions", {"model": model, "messages": turns, **fields})

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        """Headers with the team's key; underscores stand for hyphens."""
        own_headers = {name.replace("_", "-"): value for name, value in more.items()}
        return {"authorization": f"Bearer {self.key}", **own_headers}


def message(model: str, words: str, **fields: Any) -> dict[str, Any]:
    """The body of a Messages call of one turn."""
    turns = [{"role": "user", "content": words}]
    return {"model": model, "max_tokens": 200, "messages": turns, **fields}


@asynccontextmanager
async def _running(folder: Path, more: str, settings: Any) -> AsyncIterator[CloudGateway]:
    simulated = SimulatedModel(
        wire="anthropic",
        regime="anthropic-breakpoint",
        min_cache_tokens=512,
        traits=frozenset(TRAITS),
    )
    lab = Simulator(
        SimulatorSettings(
            models={"claude-lab": simulated, "claude-lab-v1:0": simulated},
            time_scale=0.0,
            keepalive=0.01,
        ),
        clock=time.monotonic,
        sleep=asyncio.sleep,
    )
    bedrock = BedrockUpstream(app(lab), accounts={ACCOUNT: SECRET}, tokens={ACCOUNT: SESSION})
    vertex = VertexUpstream(app(lab))
    async with serving(bedrock) as there, serving(vertex) as elsewhere:
        aws, google = there.removesuffix("/v1"), elsewhere.removesuffix("/v1")
        _write_google_account(folder / "google.json", f"{google}/token")
        catalog = folder / "catalog.toml"
        options = {"bedrock": aws, "vertex": google, "region": REGION, "price": PRICE, "more": more}
        catalog.write_text(_CATALOG.format(**options, traits=json.dumps(TRAITS)))
        chosen = Settings(folder=folder / "gateway", catalog=catalog, **settings)
        async with served_gateway(chosen) as served:
            yield CloudGateway(
                **vars(served), folder=folder, lab=lab, bedrock=bedrock, vertex=vertex
            )


@contextmanager
def running_cloud_gateway(
    folder: Path, patch: pytest.MonkeyPatch, *, more: str = "", **settings: Any
) -> Iterator[CloudGateway]:
    """A running gateway whose environment has an account at AWS and one at Google.

    Args:
        folder: Its own.
        patch: Sets the environment.
        more: Further lines of Bedrock's table.
        settings: The gateway's.
    """
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "aws.ini"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials.ini"),
        "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "google.json"),
    }.items():
        patch.setenv(name, value)
    with running_in_thread(lambda: _running(folder, more, settings)) as fixture:
        yield fixture


def _write_google_account(file: Path, token_uri: str) -> None:
    """Write the file of a service account."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "type": "service_account",
        "project_id": "acme-1",
        "private_key_id": "k1",
        "private_key": pem.decode(),
        "client_email": "gateway@acme-1.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }
    file.write_text(json.dumps(account))
