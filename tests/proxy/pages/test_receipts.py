from collections.abc import Sequence
from typing import Any

import pytest

from proxy.api.connections.calls_under_way import CallsUnderWay
from proxy.pages.receipts import ending_router, router
from proxy.records.receipt import Outcome, Receipt
from slo.usage import Usage
from tests.fakes.pages import authenticate, page
from tests.fakes.receipts import a_receipt
from tests.fakes.refusals import refusing

ID = f"call_{32 * '1'}"
OURS: dict[str, Any] = {"call_id": ID, "team": "team_1", "key_id": "key_1"}


class FakeKept:
    """Some calls of two teams."""

    def __init__(self, *receipts: Receipt) -> None:
        self._receipts = receipts
        self.asked: list[str] = []

    async def receipts(self, call_id: str, team: str) -> Sequence[Receipt]:
        self.asked.append(call_id)
        return [r for r in self._receipts if (r.call_id, r.team) == (call_id, team)]


def receipts_page(*receipts: Receipt, call_id: str = ID, **head: Any) -> Any:
    return page(
        router(FakeKept(*receipts), authenticate), f"/v1/thriftgate/calls/{call_id}", **head
    )


def test_a_call_is_told_with_all_its_attempts():
    failed = a_receipt(**OURS, final=False, outcome=Outcome.FAILED, status=503, error="busy")
    answered = a_receipt(
        **OURS, attempt=1, usage=Usage(input=3, output=2), list_nanos=7_500, cost_nanos=None
    )
    status, content, _ = receipts_page(failed, answered)

    assert (status, content["id"]) == (200, ID)
    first, second = content["attempts"]
    assert (first["outcome"], first["error"], first["final"]) == ("failed", "busy", False)
    assert (second["attempt"], second["usage"]) == (1, {"input": 3, "output": 2})
    assert (second["list_usd"], second["cost_usd"]) == ("0.0000075", None)
    assert "cost_nanos" not in second


@pytest.mark.parametrize(
    ("parts", "cost"),
    [
        (({"usage": Usage(input=1), "cost_nanos": 1_500}, {"cost_nanos": 2_000}), "0.0000035"),
        (({"usage": None, "ttft": None, "cost_nanos": None}, {"cost_nanos": 2_000}), "0.000002"),
        (({"usage": Usage(input=1), "cost_nanos": None}, {"cost_nanos": 2_000}), None),
        (({"cost_nanos": 2_000}, {"usage": None, "ttft": 0.5, "cost_nanos": None}), None),
    ],
)
def test_a_calls_cost_is_the_sum_of_its_attempts(parts, cost):
    _, content, _ = receipts_page(
        *(a_receipt(**OURS, attempt=n, **part) for n, part in enumerate(parts))
    )

    assert content["cost_usd"] == cost


def test_a_receipt_shows_planning_and_the_price_of_a_miss():
    planned = a_receipt(
        **OURS,
        conversation="ab" * 16,
        arm="treated",
        layout=2,
        expected_read=4096,
        miss="expired",
        miss_detail="idle for 612 s",
        miss_tokens=4000,
        miss_nanos=1_500,
    )
    _, content, _ = receipts_page(planned, a_receipt(**OURS, attempt=1))

    first, second = content["attempts"]
    assert (first["conversation"], first["arm"], first["layout"]) == ("ab" * 16, "treated", 2)
    assert (first["expected_read"], first["miss_tokens"]) == (4096, 4000)
    assert (first["miss"], first["miss_detail"]) == ("expired", "idle for 612 s")
    assert first["miss_usd"] == "0.0000015"
    assert "miss_nanos" not in first
    assert not {"conversation", "arm", "miss", "miss_usd"} & set(second)


def test_a_prompt_that_was_kept_is_not_told_here():
    _, content, _ = receipts_page(a_receipt(**OURS, prompt="the secret plan"))

    assert "prompt" not in content["attempts"][0]


@pytest.mark.parametrize(
    "other", [{"team": "team_2"}, {"key_id": "key_2"}, {"call_id": f"call_{32 * '2'}"}]
)
def test_anothers_call_is_not_found(other):
    with refusing(404) as caught:
        receipts_page(a_receipt(**(OURS | other)))

    assert caught.value.code == "call_not_found"


@pytest.mark.parametrize(
    "call_id",
    ["x" * 500, "call_1", f"CALL_{32 * 'a'}", f"call_{32 * 'A'}", f"call_{33 * 'a'}", ID + "%0A"],
)
def test_an_invalid_call_id_is_not_looked_up(call_id):
    receipts = FakeKept()
    with refusing(404):
        page(router(receipts, authenticate), f"/v1/thriftgate/calls/{call_id}")

    assert receipts.asked == []


def test_receipts_are_told_to_keys_only():
    with refusing(401):
        receipts_page(a_receipt(**OURS), headers={"authorization": ""})


class FakeUnderWay(CallsUnderWay):
    """One call of ``key_1`` that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[str, str]] = []

    def end(self, call_id: str, key_id: str) -> bool:
        self.ended.append((call_id, key_id))
        return (call_id, key_id) == (ID, "key_1")


def test_a_key_ends_its_call_under_way_and_none_that_is_not():
    calls = FakeUnderWay()
    path = f"/v1/thriftgate/calls/{ID}"
    status, content, _ = page(ending_router(calls, authenticate), path, method="DELETE")

    assert (status, content) == (200, {"id": ID, "ended": True})
    with refusing(404):
        page(ending_router(calls, authenticate), f"{path}0", method="DELETE")
    assert calls.ended == [(ID, "key_1"), (f"{ID}0", "key_1")]
