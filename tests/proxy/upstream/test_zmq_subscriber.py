"""Subscriptions over ZeroMQ, to a real publisher."""

import asyncio
import importlib
import importlib.util
from pathlib import Path

import pytest

from proxy.upstream.zmq_subscriber import subscribe

has_zmq = importlib.util.find_spec("zmq") is not None


@pytest.mark.skipif(not has_zmq, reason="the extra [kv-events] is not installed")
async def test_messages_come_in_their_parts_also_after_the_publisher_was_started_again(
    tmp_path: Path,
):
    zmq = importlib.import_module("zmq")
    sockets = importlib.import_module("zmq.asyncio")
    address = f"ipc://{tmp_path}/kv.sock"

    async def publish(until: asyncio.Event, number: int) -> None:
        context = sockets.Context()
        socket = context.socket(zmq.PUB)
        socket.bind(address)
        while not until.is_set():
            await socket.send_multipart([b"", b"%d" % number, b"batch"])
            await asyncio.sleep(0.02)
        socket.close(linger=0)
        context.term()

    messages = []
    async with subscribe(address) as events, asyncio.timeout(30):
        for number in range(2):
            done = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(publish(done, number))
                message = list(await events.receive())
                while message[1] != b"%d" % number:
                    message = list(await events.receive())
                messages.append(message)
                done.set()

    assert messages == [[b"", b"0", b"batch"], [b"", b"1", b"batch"]]


@pytest.mark.skipif(not has_zmq, reason="the extra [kv-events] is not installed")
def test_a_name_that_is_no_address_is_an_os_error():
    async def story() -> None:
        async with subscribe("nowhere"):
            pass

    with pytest.raises(OSError, match="nowhere"):
        asyncio.run(story())


@pytest.mark.skipif(has_zmq, reason="ZeroMQ is installed")
def test_without_zeromq_the_error_says_what_to_install():
    async def story() -> None:
        async with subscribe("ipc:///tmp/none"):
            pass

    with pytest.raises(OSError, match=r"thriftgate\[kv-events\]"):
        asyncio.run(story())
