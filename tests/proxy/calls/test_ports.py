"""The fakes on the desk do what its ports promise; the type checker sees to their shape."""

import asyncio
from dataclasses import replace

import pytest

from proxy.api.passthrough import Relay
from proxy.calls.ports import (
    BackgroundTaskGroup,
    Caller,
    Dependencies,
    Estimator,
    Head,
    ReceiptSink,
)
from proxy.catalog.model_aliases import ModelAliases
from proxy.records.receipt import Receipt
from tests.fakes.answers import ASKED
from tests.fakes.asgi import AsgiConnection
from tests.fakes.call_dependencies import (
    ESTIMATE,
    FakeEstimator,
    FakeLedger,
    LoopTasks,
    call,
    fake_dependencies,
    route,
)
from tests.fakes.caller import FakeCaller
from tests.fakes.clock import run_in_instant_time
from tests.fakes.receipts import a_receipt
from tests.fakes.upstream import FakeTransport

HEAD = Head(200, {"content-type": "application/json"}, "m", ())


class PortCase:
    """A caller and what it has got so far."""

    def __init__(
        self, caller: FakeCaller | Relay, connection: AsgiConnection | None = None
    ) -> None:
        self.caller: Caller = caller
        self._fake = caller if isinstance(caller, FakeCaller) else None
        self._connection = connection

    @property
    def body(self) -> bytes:
        if self._connection is not None:
            return self._connection.body
        assert self._fake is not None
        return self._fake.body

    @property
    def is_ended(self) -> bool:
        if self._connection is not None:
            return self._connection.is_ended
        assert self._fake is not None
        return self._fake.is_ended


def fake() -> PortCase:
    return PortCase(FakeCaller(leaves_after=1.0))


def real() -> PortCase:
    connection = AsgiConnection(leaves_after=1.0)
    return PortCase(Relay("call_1", connection.receive, connection.send), connection)


@pytest.fixture(params=[fake, real], ids=["fake", "relay"])
def port_case(request: pytest.FixtureRequest) -> PortCase:
    case: PortCase = request.param()
    return case


@pytest.mark.instant_time
async def test_a_caller_gets_an_answer_in_pieces(port_case):
    await port_case.caller.begin(HEAD)
    await port_case.caller.send(b"a")
    assert (port_case.body, port_case.is_ended) == (b"a", False)
    await port_case.caller.end(b"b")
    assert (port_case.body, port_case.is_ended) == (b"ab", True)


def test_a_caller_gets_a_whole_answer_at_once(port_case):
    run_in_instant_time(port_case.caller.send_whole(HEAD, b"ab", a_receipt()))

    assert (port_case.body, port_case.is_ended) == (b"ab", True)


def test_a_caller_that_asked_for_no_trailer_gets_none(port_case):
    assert port_case.caller.closing_event(a_receipt()) == b""


@pytest.mark.instant_time
async def test_a_caller_that_left_is_gone(port_case):
    loop = asyncio.get_running_loop()
    before = loop.time()
    await port_case.caller.wait_until_gone()

    assert (loop.time() - before) == pytest.approx(1.0)


def test_a_ledger_keeps_what_it_is_given_in_order():
    ledger = FakeLedger()
    port: ReceiptSink = ledger
    receipts: list[Receipt] = [a_receipt(1), a_receipt(2)]
    for receipt in receipts:
        port.keep(receipt)

    assert ledger.receipts == receipts


def test_an_estimator_counts_and_learns():
    estimator = FakeEstimator()
    port: Estimator = estimator
    port.learn(call(ASKED), route(), ESTIMATE)

    assert asyncio.run(port.usage(call(ASKED), route(), None)) == ESTIMATE
    assert estimator.learnt == [ESTIMATE]


async def test_tasks_are_started_at_once():
    done: list[int] = []

    async def one() -> None:
        await asyncio.sleep(0)
        done.append(1)

    tasks: BackgroundTaskGroup = LoopTasks()
    await tasks.start(one)

    assert done == [1]


def test_a_desk_cannot_be_rearranged():
    table, _ = fake_dependencies(FakeTransport([]))
    assert isinstance(table, Dependencies)

    with pytest.raises(AttributeError):
        table.catalog = table.catalog  # type: ignore[misc]


def test_calls_see_the_aliases_of_their_team_but_for_a_model_in_a_path():
    deps, _ = fake_dependencies(FakeTransport([]))
    aliases = ModelAliases({"fast": "m"})
    table = replace(deps, catalog=replace(deps.catalog, team_aliases={"acme": aliases}))

    assert table.for_call(call(ASKED)).catalog.aliases is aliases
    deletion = call(b"", "models/fast", method="DELETE", fields=None)
    assert table.for_call(deletion) is table
    assert deps.for_call(call(ASKED)) is deps
