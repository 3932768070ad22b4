"""A budget before a real engine that is paid by the GPU hour: held by its measured price per token,
settled by its share of the hour, and the same to the nano-dollar in receipt, budget and report.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from proxy.app import gateway
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from slo.measured_rates import MIN_MEASURED_CALLS
from tests.fakes.databases import migrated_sqlite
from tests.fakes.real_replicas import RealReplicas
from tests.fakes.terminal_command import TERMINAL_COMMAND
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
_NOW = 1_790_000_000.0
#: Half a minute of an engine at $3.60 an hour.
POLICIES = """
[[budgets]]
name = "month"
scope = "team"
unit = "usd"
window = "month"
limit = "0.03"
hold = "worst"
unpriced = "allow"
"""
ENGINES = """
[engines.house]
engine = "llamacpp"
served_name = "house-llm"
replicas = ["{url}"]
gpus = 0
max_model_len = 4096
price_per_gpu_hour = "3.60"
"""
#: Answers of one call that nobody could pay: it is refused, and says how the budget stands.
_UNPAYABLE = 128
_LONG_ANSWER = 600


class BudgetFigures(NamedTuple):
    """A budget's spent and held amounts in dollars, as a refusal tells them."""

    spent: Decimal
    held: Decimal


class BudgetCaller:
    """Calls a gateway with a key of its team."""

    def __init__(self, client: httpx2.AsyncClient, url: str, key: str) -> None:
        self._client, self._url = client, url
        self._headers = {"authorization": f"Bearer {key}"}

    async def post(self, **fields: Any) -> httpx2.Response:
        """The answer to a call."""
        return await self._client.post(
            f"{self._url}/chat/completions", json=body(**fields), headers=self._headers
        )

    @asynccontextmanager
    async def stream(self, **fields: Any) -> AsyncIterator[httpx2.Response]:
        """A stream from its first token on; it is read to its end."""
        async with self._client.stream(
            "POST",
            f"{self._url}/chat/completions",
            json=body(stream=True, **fields),
            headers=self._headers,
        ) as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if '"content":"' in line:
                    break
            yield answer
            async for line in lines:
                assert "error" not in line

    async def cost(self, answer: httpx2.Response) -> Decimal:
        """The cost on the receipt of a call that has ended."""
        url = f"{self._url}/thriftgate/calls/{answer.headers['x-request-id']}"
        for _ in range(200):
            receipt_answer = await self._client.get(url, headers=self._headers)
            if receipt_answer.status_code == 200:
                (only,) = receipt_answer.json()["attempts"]
                assert only["gpu_seconds"] > 0
                return Decimal(only["cost_usd"])
            await asyncio.sleep(0.05)
        raise AssertionError(url)

    async def budget_figures(self) -> BudgetFigures:
        """The budget as it stands, by a call that is refused."""
        refused = await self.post(n=_UNPAYABLE, max_tokens=3_000)
        assert refused.status_code == 429, refused.text
        error = refused.json()["error"]
        return BudgetFigures(Decimal(error["spent"]), Decimal(error["held"]))

    async def wait_until_settled(self) -> BudgetFigures:
        """The budget once nothing is held."""
        for _ in range(200):
            figures = await self.budget_figures()
            if not figures.held:
                return figures
            await asyncio.sleep(0.05)
        raise AssertionError(figures)

    async def price(self, kind: str) -> Decimal:
        """The engine's measured price of a token, in dollars."""
        page = await self._client.get(f"{self._url.removesuffix('/v1')}/metrics")
        (line,) = (
            line
            for line in page.text.splitlines()
            if line.startswith("thriftgate_replica_usd_per_million_tokens{")
            and f'tokens="{kind}"' in line
        )
        return Decimal(line.rpartition(" ")[2]) / 1_000_000


def body(**fields: Any) -> dict[str, Any]:
    question = {"role": "user", "content": "Tell me a story of the fox."}
    return {"model": "house-llm", "messages": [question], "temperature": 0, **fields}


@asynccontextmanager
async def paid_engine(folder: Path) -> AsyncIterator[BudgetCaller]:
    """A caller of a gateway before a real engine."""
    engines, policies = folder / "engines.toml", folder / "policies.toml"
    settings = Settings(folder=folder / "gateway", engines=engines, policies=policies)
    policies.write_text(POLICIES)
    migrated_sqlite(settings.folder / "thriftgate.db")
    async with RealReplicas().start() as engine, httpx2.AsyncClient(timeout=60) as client:
        engines.write_text(ENGINES.format(url=engine))
        async with gateway(settings) as running:
            team = running.store.teams.create("acme", now=_NOW)
            _, key = running.store.teams.create_key(team.id, "first", now=_NOW)
            async with serving(running.app) as url:
                yield BudgetCaller(client, url, key)


def reported_cost() -> Decimal:
    """The cost of the team by ``thriftgate report``."""
    ran = subprocess.run(  # noqa: S603 - our own program
        [*TERMINAL_COMMAND, "report", "--days", "2", "--json"],
        capture_output=True,
        check=True,
        text=True,
    )
    (row,) = (row for row in json.loads(ran.stdout)["rows"] if row["team"] == "acme")
    return Decimal(row["cost_usd"])


def test_receipt_budget_and_report_of_an_engine_s_calls_agree_to_the_nano_dollar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THRIFTGATE_FOLDER", str(tmp_path / "gateway"))

    async def story() -> None:
        async with paid_engine(tmp_path) as caller:
            answers = [await caller.post(max_tokens=30) for _ in range(MIN_MEASURED_CALLS + 1)]
            paid = sum([await caller.cost(answer) for answer in answers], Decimal())
            assert await caller.wait_until_settled() == BudgetFigures(paid, Decimal())

            prompt, output = await caller.price("prompt"), await caller.price("output")
            async with caller.stream(max_tokens=_LONG_ANSWER, ignore_eos=True) as answer:
                during = await caller.budget_figures()
            cost = await caller.cost(answer)

            # At worst all of the answer is generated, and each byte of the body is a token.
            streamed_body = body(stream=True, max_tokens=_LONG_ANSWER, ignore_eos=True)
            worst = (len(json.dumps(streamed_body)) + 256) * prompt + _LONG_ANSWER * output
            assert during.spent == paid
            assert during.held == pytest.approx(worst, rel=Decimal("0.05"))
            assert await caller.wait_until_settled() == BudgetFigures(paid + cost, Decimal())
            assert await asyncio.to_thread(reported_cost) == paid + cost

    asyncio.run(story())
