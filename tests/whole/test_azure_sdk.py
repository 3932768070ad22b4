"""The official SDK's client for Azure, pointed at the gateway by ``azure_endpoint``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk_calls import last, receipt_of, user


@contextmanager
def azure(gateway: GatewayFixture, **fields: Any) -> Iterator[openai.AzureOpenAI]:
    azure_client = openai.AzureOpenAI(
        azure_endpoint=gateway.url.removesuffix("/v1"),
        api_key=gateway.key,
        api_version="2024-10-21",
        max_retries=0,
        **fields,
    )
    with azure_client as client:
        yield client


@pytest.mark.parametrize("model", ["gpt-lab", "claude-lab"])
def test_a_deployments_name_is_a_models_name(gateway: GatewayFixture, model: str) -> None:
    with azure(gateway) as client:
        create = client.chat.completions.with_raw_response.create
        answered = create(model=model, messages=user("Hello."))

    assert answered.parse().choices[0].message.content
    receipt = receipt_of(gateway, answered.headers["x-request-id"])
    assert (receipt.model, receipt.endpoint) == (model, "chat/completions")
    assert receipt.cost_nanos
    assert "api-version" not in last(gateway).path


def test_a_clients_own_deployment_goes_before_the_model_of_the_call(
    gateway: GatewayFixture,
) -> None:
    with azure(gateway, azure_deployment="gpt-lab") as client:
        create = client.chat.completions.with_raw_response.create
        answered = create(model="anything", messages=user("Hello."), stream=True)
        assert list(answered.parse())
        assert client.responses.create(model="claude-lab", input="Hello.").output_text

    assert receipt_of(gateway, answered.headers["x-request-id"]).model == "gpt-lab"


@pytest.mark.parametrize(
    "question",
    [
        lambda c: c.embeddings.create(model="embed-lab", input="Hello."),
        lambda c: c.completions.create(model="gpt-lab", prompt="Once"),
        lambda c: c.responses.create(model="gpt-lab", input="Hello."),
        lambda c: c.models.retrieve("gpt-lab"),
        lambda c: next(iter(c.models.list())),
        lambda c: list(c.files.list()) == [],
    ],
    ids=["embeddings", "completions", "responses", "model", "models", "files"],
)
def test_the_azure_client_reaches_other_paths(
    gateway: GatewayFixture, question: Callable[[Any], Any]
) -> None:
    with azure(gateway) as client:
        assert question(client)


def test_a_recording_goes_to_the_upstream_of_its_deployment(gateway: GatewayFixture) -> None:
    with (
        azure(gateway, azure_deployment="gpt-lab") as client,
        pytest.raises(
            openai.NotFoundError, match="The simulator has no /v1/audio/transcriptions"
        ) as caught,
    ):
        client.audio.transcriptions.create(model="anything", file=("a.wav", b"RIFF"))

    receipt = receipt_of(gateway, caught.value.response.headers["x-request-id"])
    assert (receipt.model, receipt.endpoint) == ("gpt-lab", "audio/transcriptions")


def test_azures_v1_paths_work_with_the_plain_client(gateway: GatewayFixture) -> None:
    url = gateway.url.removesuffix("/v1") + "/openai/v1"
    headers: dict[str, str | openai.Omit] = {"Authorization": openai.Omit(), "api-key": gateway.key}
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        create = client.chat.completions.create
        answered = create(model="gpt-lab", messages=user("Hello."), extra_headers=headers)

    assert answered.choices[0].message.content


def test_a_deployment_that_nobody_knows_is_not_found(gateway: GatewayFixture) -> None:
    with (
        azure(gateway) as client,
        pytest.raises(openai.NotFoundError, match="Did you mean gpt-lab"),
    ):
        client.chat.completions.create(model="gpt-lap", messages=user("Hello."))


def test_a_key_that_opens_nothing_is_an_authentication_error(gateway: GatewayFixture) -> None:
    with azure(gateway) as client, pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="tg-wrong").models.list()
