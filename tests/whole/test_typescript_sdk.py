"""Anthropic's TypeScript SDK, by hand-written use, before a gateway and a simulator.

It is a test tool: ``npm install --prefix .typescript-sdk @anthropic-ai/sdk`` at the root of the
repository brings it here; without it, or without Node, these tests skip.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proxy.records.receipt import Outcome
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.sdk_calls import last

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".typescript-sdk"
SCRIPT = ROOT / "tests" / "fakes" / "typescript_sdk.cjs"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(
    NODE is None or not (FOLDER / "node_modules" / "@anthropic-ai" / "sdk").is_dir(),
    reason="Anthropic's TypeScript SDK is not installed: see the module",
)
both_kinds = pytest.mark.parametrize("model", ["claude-lab", "gpt-lab"])


def see(gateway: GatewayFixture, scene: str, model: str, feature: str) -> dict[str, Any]:
    """Run one scene; return what the SDK prints of it."""
    done = subprocess.run(  # noqa: S603 - a program that the test installs
        [str(NODE), str(SCRIPT), scene, model],
        env={
            **os.environ,  # noqa: TID251 - Node's own settings are found there
            "SDK_FOLDER": str(FOLDER),
            "FEATURE": feature,
            "ANTHROPIC_BASE_URL": gateway.url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": gateway.key,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@both_kinds
def test_the_stream_helper_puts_the_message_together(
    gateway: GatewayFixture, model: str, feature: str
) -> None:
    printed = see(gateway, "stream", model, feature)
    (receipt,) = gateway.of_feature(feature)

    assert (printed["kinds"][0], printed["kinds"][-1]) == ("message_start", "message_stop")
    assert printed["words"] == printed["text"] != ""
    assert receipt.usage is not None
    assert printed["usage"]["output_tokens"] == receipt.usage.generated_tokens


@both_kinds
def test_the_tool_runner_calls_and_goes_on(
    gateway: GatewayFixture, model: str, feature: str
) -> None:
    """It tries a message thread first, and sends all messages where threads are refused."""
    printed = see(gateway, "tools", model, feature)
    receipts = gateway.of_feature(feature, 2)

    assert (printed["calls"], printed["reason"]) == (1, "end_turn")
    assert sum(receipt.outcome is Outcome.ANSWERED for receipt in receipts) == 2


@both_kinds
def test_thinking_goes_back_unmodified_by_the_typescript_sdk(
    gateway: GatewayFixture, model: str, feature: str
) -> None:
    printed = see(gateway, "thinking", model, feature)

    assert (printed["kinds"][-1], printed["signed"], printed["reason"]) == (
        "text",
        True,
        "end_turn",
    )
    assert ("thinking" in printed["kinds"]) is (model == "claude-lab")


@both_kinds
def test_tokens_are_counted(gateway: GatewayFixture, model: str, feature: str) -> None:
    assert see(gateway, "count", model, feature)["input_tokens"] > 0


def test_batches_go_to_the_upstream_that_speaks_anthropics_api(
    gateway: GatewayFixture, feature: str
) -> None:
    assert see(gateway, "batches", "claude-lab", feature)["kind"] == "NotFoundError"
    assert last(gateway).path.startswith("/v1/messages/batches")


@both_kinds
def test_a_refusal_is_the_sdks_own_error(gateway: GatewayFixture, model: str, feature: str) -> None:
    printed = see(gateway, "refusal", model, feature)

    assert (printed["kind"], printed["type"]) == ("BadRequestError", "invalid_request_error")
    assert gateway.receipts(printed["id"])[0].status == 400


@both_kinds
def test_an_overloaded_upstream_is_tried_again(
    gateway: GatewayFixture, model: str, feature: str
) -> None:
    printed = see(gateway, "retries", model, feature)

    assert printed["type"] == "overloaded_error"
    assert len({receipt.call_id for receipt in gateway.of_feature(feature, 2)}) == 2


def test_a_caller_that_gives_up_waiting_has_its_call_ended(
    gateway: GatewayFixture, feature: str
) -> None:
    printed = see(gateway, "timeout", "claude-lab", feature)
    (receipt,) = gateway.of_feature(feature)

    assert printed["kind"] == "APIConnectionTimeoutError"
    assert receipt.final
