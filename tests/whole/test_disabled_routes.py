"""A route that an administrator disables gets no calls until it is enabled, on every gateway."""

import time
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from proxy.store.sql.settings.stored_policies import DISABLED_ROUTES
from tests.fakes.fallback_gateway import FallbackGateway, fallback_gateway
from tests.fakes.plain_http import PLAIN

TOKEN = "an-admin-token-of-24-chars"
MAIN = {"kind": "route", "name": "lab/main"}
#: Seconds in which a gateway follows another.
_SOON_S = 30.0


def change(gateway: FallbackGateway, path: str, **document: Any) -> httpx.Response:
    """Change what is disabled as the administrator."""
    base = gateway.url.removesuffix("/v1")
    with httpx.Client(base_url=base, follow_redirects=True, verify=PLAIN) as client:
        client.post("/admin/sign-in", data={"token": TOKEN})
        return client.post(f"/api/v1/disabled-routes{path}", json=document)


def call(gateway: FallbackGateway, model: str = "main") -> tuple[str, str, int]:
    """The model that answered, the reason of a fallback, and the number of attempts."""
    answer = gateway.ask(model)
    receipts = gateway.receipts(answer.headers["x-request-id"])
    return (
        receipts[-1].route,
        answer.headers.get("x-thriftgate-fallback", ""),
        len(receipts),
    )


def test_a_failing_route_that_is_disabled_gets_no_call_until_it_is_enabled(
    tmp_path: Path,
) -> None:
    with fallback_gateway(tmp_path, admin_token=TOKEN) as gateway:
        gateway.lab.inject_fault("main", "503")
        assert call(gateway)[2] > 1
        assert change(gateway, "", **MAIN, hours=4, why="503s").status_code == 204
        assert call(gateway) == ("lab/spare", "fallback: route disabled", 1)
        entry = gateway.gateway.store.audit.entries(1)[0]
        assert (entry.who, entry.action, entry.subject) == (
            "admin token", "disable", "route lab/main",
        )  # fmt: skip
        assert change(gateway, "/enable", **MAIN).status_code == 204
        gateway.lab.inject_fault("main", "")
        assert call(gateway) == ("lab/main", "", 1)


def test_a_gateway_follows_what_another_one_of_its_ledger_disables(tmp_path: Path) -> None:
    fields = {"name": "route lab/main", "until": None, "why": ""}
    with fallback_gateway(tmp_path) as gateway:
        gateway.gateway.store.policies.set(DISABLED_ROUTES, fields, "ann", 5.0)
        deadline = time.monotonic() + _SOON_S
        while (answered := call(gateway)[0]) != "lab/spare" and time.monotonic() < deadline:
            time.sleep(0.2)
        assert answered == "lab/spare"


def test_the_last_route_of_a_model_is_disabled_by_consent_alone(tmp_path: Path) -> None:
    alone = {"kind": "model", "name": "alone"}
    with fallback_gateway(tmp_path, admin_token=TOKEN) as gateway:
        refused = change(gateway, "", **alone)
        assert refused.status_code == 409
        assert "503" in refused.json()["error"]["message"]
        assert call(gateway, "alone")[0] == "lab/alone"
        assert change(gateway, "", **alone, refuses_calls=True).status_code == 204
        with pytest.raises(openai.InternalServerError) as unanswered:
            gateway.ask("alone")
        assert unanswered.value.code == "route_disabled"


def test_levels_of_objectives_answer_for_a_model_that_is_disabled(tmp_path: Path) -> None:
    policies = """
[[objectives]]
name = "errors"
metric = "errors"
at_most = "1%"
enforce = "degrade"
ladder = ["spare"]
"""
    with fallback_gateway(tmp_path, policies, admin_token=TOKEN) as gateway:
        change(gateway, "", kind="model", name="alone", refuses_calls=True)
        assert call(gateway, "alone") == ("lab/spare", "errors: in its place", 1)
