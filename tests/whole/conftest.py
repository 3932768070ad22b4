"""Whole gateways before whole simulators."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.figures import show_figures
from tests.fakes.gateway_fixture import GatewayFixture, running_gateway
from tests.fakes.messages_sdk import MESSAGES_KINDS
from tests.fakes.sdk import KINDS, Dial, Sdk
from tests.fakes.sdk_calls import MODELS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests have measured."""
    show_figures(terminalreporter)


@pytest.fixture
def start_gateway(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., GatewayFixture]]:
    """Starts a gateway; its settings are the gateway's, as keyword arguments."""
    monkeypatch.setenv("SIMULATOR_KEY", "simulator-key")
    with ExitStack() as gateways:
        yield lambda **settings: gateways.enter_context(running_gateway(tmp_path, **settings))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    """One gateway for all tests of a module, with the settings as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        with running_gateway(tmp_path_factory.mktemp("gateway")) as gateway:
            yield gateway


@pytest.fixture(params=KINDS, scope="module")
def sdk_client(request: pytest.FixtureRequest, gateway: GatewayFixture) -> Iterator[Sdk]:
    """The official SDK, of each kind in turn."""
    client = KINDS[request.param](gateway.url, gateway.key)
    yield client
    client.close()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """A model of each provider in turn."""
    return str(request.param)


@pytest.fixture(params=KINDS)
def make_client(request: pytest.FixtureRequest, gateway: GatewayFixture) -> Iterator[Dial]:
    """Makes clients of each kind in turn."""
    clients: list[Sdk] = []

    def make(key: str = gateway.key, **options: Any) -> Sdk:
        clients.append(KINDS[request.param](gateway.url, key, **{"max_retries": 0, **options}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(params=MESSAGES_KINDS, scope="module")
def claude(request: pytest.FixtureRequest, gateway: GatewayFixture) -> Iterator[Sdk]:
    """Anthropic's SDK, of each kind in turn; it does not retry."""
    client = MESSAGES_KINDS[request.param](gateway.url, gateway.key, max_retries=0)
    yield client
    client.close()


@pytest.fixture(params=MESSAGES_KINDS)
def make_claude(request: pytest.FixtureRequest, gateway: GatewayFixture) -> Iterator[Dial]:
    """Makes clients of each kind in turn."""
    clients: list[Sdk] = []

    def make(key: str = gateway.key, **options: Any) -> Sdk:
        clients.append(MESSAGES_KINDS[request.param](gateway.url, key, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def feature(request: pytest.FixtureRequest) -> str:
    """A label no other test uses."""
    return str(request.node.name)[:128]
