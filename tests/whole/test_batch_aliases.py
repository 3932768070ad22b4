"""A batch of Messages calls, by one team's names for models."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.gateway_fixture import GatewayFixture, running_gateway
from tests.fakes.plain_http import PLAIN

ALIASES = """
[teams."*".model_aliases]
"house" = "claude-lab"
"fast" = "gpt-lab"
"""


@pytest.fixture(scope="module")
def lone_team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        folder = tmp_path_factory.mktemp("batches")
        with running_gateway(folder, more_catalog=ALIASES) as running:
            yield running


def create_batch(gateway: GatewayFixture, *models: str) -> httpx.Response:
    params = {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}
    requests: list[dict[str, Any]] = [
        {"custom_id": f"r{index}", "params": {"model": model, **params}}
        for index, model in enumerate(models)
    ]
    return httpx.post(
        f"{gateway.url}/messages/batches",
        json={"requests": requests},
        headers={"x-api-key": gateway.key, "anthropic-version": "2023-06-01"},
        timeout=30,
        trust_env=False,
        verify=PLAIN,
    )


def test_a_batch_reaches_its_upstream_with_the_models_that_its_names_mean(
    lone_team: GatewayFixture,
) -> None:
    create_batch(lone_team, "house", "claude-lab")
    exchange = lone_team.lab.exchanges[-1]
    models = [request["params"]["model"] for request in json.loads(exchange.body)["requests"]]

    assert exchange.path == "/v1/messages/batches"
    assert models == ["claude-lab", "claude-lab"]


def test_a_batch_with_a_name_for_another_providers_model_is_refused_as_anthropic_refuses(
    lone_team: GatewayFixture,
) -> None:
    before = len(lone_team.lab.exchanges)
    refused = create_batch(lone_team, "house", "fast")
    document = refused.json()

    assert refused.status_code == 400
    assert (document["type"], document["error"]["type"]) == ("error", "invalid_request_error")
    assert document["error"]["message"].startswith(
        "`requests[1].params.model`: fast is your team's alias for gpt-lab"
    )
    assert len(lone_team.lab.exchanges) == before
    assert [receipt.status for receipt in lone_team.receipts(document["request_id"])] == [400]
