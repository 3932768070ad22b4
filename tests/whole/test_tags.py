"""Tags over HTTP: a policy's keys, in all three APIs, end on receipts and in reports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboards.cost_reports import cost_report
from dashboards.reports import latest_days, tag_part
from tests.fakes.gateway_fixture import GatewayFixture

METADATA = {"customer": "acme", "secret": "x"}
USER = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "chat/completions": {"model": "gpt-lab", "messages": USER, "metadata": METADATA},
    "responses": {"model": "gpt-lab", "input": "Hello", "metadata": METADATA},
    "messages": {
        "model": "claude-lab", "messages": USER, "max_tokens": 50, "metadata": {"user_id": "u"},
    },
}  # fmt: skip


@pytest.fixture
def gateway(start_gateway: Callable[..., GatewayFixture], tmp_path: Path) -> GatewayFixture:
    policies = tmp_path / "policies.toml"
    policies.write_text('[[tags]]\nname = "all"\nkeys = ["customer", "job", "agent"]\n')
    return start_gateway(policies=policies)


def test_each_apis_tags_are_on_receipts_and_add_up_in_reports(gateway: GatewayFixture) -> None:
    started = 0.0
    for endpoint, body in BODIES.items():
        answer = httpx.post(
            f"{gateway.url}/{endpoint}",
            json=body,
            headers={
                "authorization": f"Bearer {gateway.key}",
                "x-thriftgate-tags": "customer=other, job=nightly",
            },
            timeout=30,
            trust_env=False,
        )
        assert answer.status_code == 200, answer.text
        customer = "other" if endpoint == "messages" else "acme"
        (receipt,) = gateway.receipts(answer.headers["x-request-id"])
        tags = {"customer": customer, "job": "nightly", "agent": "python-httpx"}
        assert receipt.tags == tuple(tags.items())
        started = receipt.started
    period = latest_days(started, 1)
    report = cost_report(gateway.gateway.store.reports, period, (tag_part("customer"),))

    assert {row.values: row.sums.calls for row in report.rows} == {("acme",): 2, ("other",): 1}
    assert report.total == cost_report(gateway.gateway.store.reports, period, ("team",)).total
