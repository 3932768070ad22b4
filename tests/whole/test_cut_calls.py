"""Calls that a kill of the gateway cuts off leave receipts, and each call has one final receipt."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from proxy.records.receipt import Outcome, Receipt
from proxy.services.cut_attempts import KILLED
from proxy.store.store import Store
from slo.alert import Alert
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.plain_http import PLAIN
from tests.fakes.serve_process import ServeProcess, serve_process

CALLS = 20
#: A prompt of some 300,000 bytes, nearly all of them a picture, whose answer never begins.
PICTURE: list[dict[str, object]] = [
    {"type": "text", "text": "[[fault:hang]] What is this?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{'A' * 300_000}"}},
]
MAX_OUTPUT_TOKENS = 100
#: A token of input and of output, in the fixture's catalog.
INPUT_NANOS, OUTPUT_NANOS = 1_000, 4_000


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def call(gateway: ServeProcess, content: str | list[dict[str, object]]) -> int:
    """The status of the answer to a call; 0 where the connection breaks."""
    with suppress(httpx.HTTPError):
        return httpx.post(
            f"{gateway.url}/v1/chat/completions",
            json={
                "model": "gpt-lab",
                "max_completion_tokens": MAX_OUTPUT_TOKENS,
                "messages": [{"role": "user", "content": content}],
            },
            headers={"authorization": f"Bearer {gateway.key}"},
            timeout=60,
            trust_env=False,
            verify=PLAIN,
        ).status_code
    return 0


@contextmanager
def opened(gateway: ServeProcess) -> Iterator[Store]:
    """The database of a gateway, which may run."""
    store = Store.open(gateway.database_url, gateway.folder / "elsewhere")
    try:
        yield store
    finally:
        store.close(5)


def receipts(gateway: ServeProcess) -> list[Receipt]:
    with opened(gateway) as store:
        return list(store.ledger.receipts_since(0))


def open_alerts(gateway: ServeProcess) -> list[Alert]:
    with opened(gateway) as store:
        return list(store.outbox.open_alerts(9))


def test_calls_that_a_kill_cuts_off_have_estimated_receipts_after_the_next_start(
    tmp_path: Path,
) -> None:
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog) as gateway,
        ThreadPoolExecutor(CALLS) as pool,
    ):
        gateway.start()
        assert [call(gateway, "hi") for _ in range(5)] == [200] * 5
        hanging = [pool.submit(call, gateway, PICTURE) for _ in range(CALLS)]
        (notes,) = (gateway.folder / "journal").glob("*.sent")
        wait_until(lambda: notes.stat().st_size > (CALLS - 1) * 1_024)
        gateway.kill()
        statuses = [call.result() for call in hanging]
        gateway.start()
        wait_until(lambda: len(receipts(gateway)) == CALLS + 5)
        gateway.kill()
        gateway.start()
        assert gateway.stop() == 0
        all_receipts = receipts(gateway)
        left = list((gateway.folder / "journal").glob("*.sent"))

    cut = [receipt for receipt in all_receipts if receipt.error == KILLED]
    assert statuses == [0] * CALLS
    assert len(all_receipts) == CALLS + 5
    assert len(cut) == len({receipt.call_id for receipt in cut}) == CALLS
    assert all(receipt.final and receipt.estimated for receipt in cut)
    assert {receipt.outcome for receipt in cut} == {Outcome.BROKEN}
    for receipt in cut:
        assert receipt.usage is not None
        assert 0 < receipt.usage.prompt_tokens < 100, "the picture's bytes are no tokens"
        assert receipt.usage.generated_tokens == MAX_OUTPUT_TOKENS
        input_nanos = receipt.usage.prompt_tokens * INPUT_NANOS
        assert receipt.cost_nanos == input_nanos + MAX_OUTPUT_TOKENS * OUTPUT_NANOS
    assert left == []


@pytest.mark.parametrize("remove", [Path.unlink, partial(Path.write_bytes, data=b"")])
def test_calls_whose_notes_were_removed_are_noted_anew_and_operators_are_notified(
    tmp_path: Path, remove: Callable[[Path], object]
) -> None:
    with (
        running_in_thread(lambda: running_simulator(tmp_path)) as (_, catalog),
        serve_process(tmp_path, catalog) as gateway,
        ThreadPoolExecutor(2) as pool,
    ):
        gateway.start()
        hanging = [pool.submit(call, gateway, PICTURE) for _ in range(2)]
        journal = gateway.folder / "journal"
        wait_until(lambda: any(path.stat().st_size > 1_024 for path in journal.glob("*.sent")))
        (removed,) = journal.glob("*.sent")
        remove(removed)
        wait_until(lambda: set(journal.glob("*.sent")) - {removed})
        status, ready = gateway.probe("/readyz")
        wait_until(lambda: open_alerts(gateway))
        gateway.kill()
        assert [call.result() for call in hanging] == [0, 0]
        gateway.start()
        wait_until(lambda: len(receipts(gateway)) == 2)

    assert status == 200
    assert any("journal" in note and "removed or truncated" in note for note in ready["notes"])
    assert [(alert.kind, alert.subject) for alert in open_alerts(gateway)] == [("store", "journal")]
    assert {receipt.error for receipt in receipts(gateway)} == {KILLED}
