"""Tests of what Prometheus reads of a gateway, by Prometheus' own check."""

from pathlib import Path

import httpx

from tests.fakes.plain_http import PLAIN
from tests.fakes.promtool import promtool
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.virtual_gateway import question, virtual_gateway

POLICIES = """
[[objectives]]
name = "chat-ttft"
metric = "ttft"
p = 95
under = "500ms"
enforce = "degrade"
ladder = ["small"]

[[budgets]]
name = "day"
scope = "team"
limit = "100"
unit = "usd"
window = "day"

[[ceilings]]
name = "call"
limit = "1"
on_exceed = ["clamp"]
"""


async def _page(folder: Path) -> bytes:
    """The metrics after calls that were answered, failed and moved."""
    async with virtual_gateway(folder, POLICIES) as world:
        for number, cue in enumerate(["", "", "503", "slow=9", "400"]):
            await world.http_caller.ask(question(number, cue=cue))
        async with httpx.AsyncClient(trust_env=False, timeout=60, verify=PLAIN) as client:
            return (await client.get(world.url.removesuffix("/v1") + "/metrics")).content


def test_promtool_has_no_warning_for_the_metrics_of_a_gateway(tmp_path):
    page = run_in_virtual_time(lambda: _page(tmp_path))

    assert b"thriftgate_ceiling_error_ratio{" in page
    ran = promtool("check", "metrics", text=page)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, b"")
