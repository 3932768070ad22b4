"""One team's Claude Code runs on another provider's model, by the aliases of the catalog."""

import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from proxy.records.receipt import Receipt, answering_model
from proxy.store.sql.access.teams import NO_LIMITS, KeyLimits
from tests.fakes.gateway_fixture import PRICE, GatewayFixture, running_gateway
from tests.fakes.plain_http import PLAIN

OPUS, HAIKU = "claude-opus-4-8", "claude-haiku-4-5-20251001"  # what Claude Code asks for
ALIASES = f"""
[[models]]
id = "{OPUS}"
upstream = "lab-anthropic"
model = "claude-lab"
price = {PRICE}

[[models]]
id = "claude-haiku-4-5"
upstream = "lab-anthropic"
model = "claude-lab"
price = {PRICE}

[teams.acme.model_aliases]
"claude-*" = "gpt-lab"
"claude-lab" = "claude-lab"
"house" = "claude-lab"
"""
HELLO = [{"role": "user", "content": "Hello."}]
MESSAGE = {"max_tokens": 50, "messages": HELLO}
ANTHROPIC = {"anthropic-version": "2023-06-01"}


class CallingTeam:
    """A team that calls the gateway with a key of its own."""

    def __init__(self, gateway: GatewayFixture, name: str, *models: str) -> None:
        self._gateway = gateway
        teams, now = gateway.gateway.store.teams, 1_790_000_000.0
        named = {team.name: team for team in teams.all()}
        self.id = (named.get(name) or teams.create(name, now=now)).id
        limits = KeyLimits(models=frozenset(models)) if models else NO_LIMITS
        _, self._key = teams.create_key(self.id, "k", now=now, limits=limits)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return httpx.request(
            method,
            f"{self._gateway.url}/{path}",
            json=body,
            headers={"authorization": f"Bearer {self._key}", **headers},
            timeout=30,
            trust_env=False,
            verify=PLAIN,
        )

    def post(self, path: str, body: Any) -> httpx.Response:
        answer = self.ask("POST", path, body)
        assert answer.status_code == 200, answer.text
        return answer


@pytest.fixture(scope="module")
def gateway_with_aliases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFixture]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIMULATOR_KEY", "simulator-key")
        folder = tmp_path_factory.mktemp("aliases")
        with running_gateway(folder, more_catalog=ALIASES) as running:
            yield running


@pytest.fixture(scope="module")
def acme(gateway_with_aliases: GatewayFixture) -> CallingTeam:
    return CallingTeam(gateway_with_aliases, "acme")


@pytest.fixture(scope="module")
def other(gateway_with_aliases: GatewayFixture) -> CallingTeam:
    return CallingTeam(gateway_with_aliases, "other")


def receipt_of(gateway: GatewayFixture, answer: httpx.Response) -> Receipt:
    store = gateway.gateway.store
    assert store.drain.flush(20)
    (receipt,) = store.ledger.attempts(answer.headers["x-request-id"])
    return receipt


@pytest.mark.parametrize("name", [OPUS, HAIKU])
@pytest.mark.parametrize(
    ("path", "body", "upstream_path"),
    [
        ("messages", MESSAGE, "/v1/chat/completions"),
        ("messages", {**MESSAGE, "stream": True}, "/v1/chat/completions"),
        ("chat/completions", {"messages": HELLO}, "/v1/chat/completions"),
        ("responses", {"input": "Hello."}, "/v1/responses"),
    ],
    ids=["messages", "streamed messages", "chat", "responses"],
)
def test_a_name_means_another_model_for_one_team_and_itself_for_another(
    gateway_with_aliases: GatewayFixture,
    acme: CallingTeam,
    other: CallingTeam,
    name: str,
    path: str,
    body: dict[str, Any],
    upstream_path: str,
) -> None:
    ours = acme.post(path, {"model": name, **body})
    exchange = gateway_with_aliases.lab.exchanges[-1]
    theirs = other.post(path, {"model": name, **body})
    other_exchange = gateway_with_aliases.lab.exchanges[-1]
    receipt, unmapped = (
        receipt_of(gateway_with_aliases, ours),
        receipt_of(gateway_with_aliases, theirs),
    )

    assert (exchange.path, json.loads(exchange.body)["model"]) == (upstream_path, "gpt-lab")
    assert (other_exchange.path, json.loads(other_exchange.body)["model"]) == (
        "/v1/messages",
        "claude-lab",
    )
    assert (receipt.model, receipt.route) == (name, "lab/gpt-lab")
    assert answering_model(receipt.route, receipt.model) == "gpt-lab"
    assert ours.headers["x-thriftgate-model"] == "gpt-lab"
    assert receipt.reroute_reason == ""
    assert (receipt.cost_nanos or 0) > 0
    assert (unmapped.model, unmapped.route.partition("/")[0]) == (name, "lab-anthropic")


def test_tokens_are_counted_for_the_model_that_is_meant(
    gateway_with_aliases: GatewayFixture, acme: CallingTeam, other: CallingTeam
) -> None:
    counted = len(gateway_with_aliases.lab.exchanges)
    ours = acme.post("messages/count_tokens", {"model": OPUS, "messages": HELLO})
    assert len(gateway_with_aliases.lab.exchanges) == counted  # by the vocabulary, here
    theirs = other.post("messages/count_tokens", {"model": OPUS, "messages": HELLO})
    exchange = gateway_with_aliases.lab.exchanges[-1]

    assert ours.headers["x-thriftgate-model"] == "gpt-lab"
    assert ours.json()["input_tokens"] > 0
    assert theirs.json()["input_tokens"] > 0
    assert (exchange.path, json.loads(exchange.body)["model"]) == (
        "/v1/messages/count_tokens",
        "claude-lab",
    )


def test_an_alias_of_a_claude_model_is_counted_by_its_provider(
    gateway_with_aliases: GatewayFixture, acme: CallingTeam
) -> None:
    acme.post("messages/count_tokens", {"model": "house", "messages": HELLO})

    assert json.loads(gateway_with_aliases.lab.exchanges[-1].body)["model"] == "claude-lab"


def test_models_are_listed_as_the_team_may_ask_for_them(
    acme: CallingTeam, other: CallingTeam
) -> None:
    listed = {
        team: [model["id"] for model in asks.ask("GET", "models?all=1").json()["data"]]
        for team, asks in (("acme", acme), ("other", other))
    }
    shown = acme.ask("GET", f"models/{OPUS}", **ANTHROPIC).json()
    page = acme.ask("GET", "models?all=1&limit=1000", **ANTHROPIC).json()["data"]
    limits = {model["id"]: model["max_tokens"] for model in page}

    assert ("house" in listed["acme"], "house" in listed["other"]) == (True, False)
    assert OPUS in listed["acme"]
    assert len(set(listed["acme"])) == len(listed["acme"])
    assert (shown["id"], shown["max_tokens"]) == (OPUS, 4096)
    assert limits[OPUS] == limits["gpt-lab"] == 4096
    assert other.ask("GET", f"models/{OPUS}", **ANTHROPIC).json()["max_tokens"] != 4096


def test_a_key_may_ask_for_an_alias_if_it_may_ask_for_the_model_that_is_meant(
    gateway_with_aliases: GatewayFixture,
) -> None:
    by_name, by_target = (
        CallingTeam(gateway_with_aliases, "acme", OPUS),
        CallingTeam(gateway_with_aliases, "acme", "gpt-lab"),
    )
    refused = by_name.ask("POST", "messages", {"model": OPUS, **MESSAGE})

    assert refused.status_code == 403
    assert f"not gpt-lab, which {OPUS} means for your team" in refused.text
    assert by_name.ask("GET", "models").json()["data"] == []
    by_target.post("messages", {"model": OPUS, **MESSAGE})
    assert OPUS in [model["id"] for model in by_target.ask("GET", "models").json()["data"]]


def test_aliases_are_reloaded_with_the_catalog(
    gateway_with_aliases: GatewayFixture, acme: CallingTeam
) -> None:
    file = gateway_with_aliases.folder / "catalog.toml"
    before = file.read_text()
    try:
        file.write_text(before.replace('"house" = "claude-lab"', '"house" = "gpt-lab"'))
        until = time.monotonic() + 30
        while (
            acme.post("chat/completions", {"model": "house", "messages": HELLO}).headers[
                "x-thriftgate-model"
            ]
            != "gpt-lab"
        ):
            assert time.monotonic() < until
            time.sleep(0.1)
    finally:
        file.write_text(before)


def test_a_chat_call_by_an_alias_is_said_as_the_model_that_is_meant_takes_it(
    gateway_with_aliases: GatewayFixture, acme: CallingTeam
) -> None:
    acme.post("chat/completions", {"model": OPUS, "messages": HELLO, "verbosity": "low"})

    assert "verbosity" not in json.loads(gateway_with_aliases.lab.exchanges[-1].body)
