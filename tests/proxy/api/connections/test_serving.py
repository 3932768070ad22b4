"""The server: its socket, its limits, and the interpreter as it is tuned for calls."""

import errno
import gc
import logging
import resource
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest

from proxy.api.connections.connection_limit import descriptor_limit, raise_descriptor_limit
from proxy.api.connections.serving import listener, server, tune_garbage_collector
from proxy.settings import Settings, read


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """The interpreter, as the other tests know it."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("as_it_was")
def test_tuning_leaves_what_is_loaded_out_of_collections():
    tune_garbage_collector()

    assert gc.get_freeze_count() > 1000
    assert sys.getswitchinterval() == pytest.approx(0.001)


def test_a_listener_is_bound_and_waits_until_it_is_told_to_listen():
    with listener(Settings(port=0)) as bound:
        port = bound.getsockname()[1]
        with socket.socket() as caller:
            assert caller.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
        bound.listen()
        with pytest.raises(OSError, match="in use"):
            listener(Settings(port=port))


def test_a_listener_takes_an_address_of_either_family():
    try:
        with listener(Settings(host="::1", port=0)) as bound:
            assert bound.family == socket.AF_INET6
    except OSError as missing:
        pytest.skip(f"no IPv6 on this machine: {missing}")


def test_the_server_says_nothing_of_itself():
    made = server(_nothing, Settings())

    assert made.config.server_header is False
    assert made.config.access_log is False
    assert logging.getLogger("uvicorn.error").level == logging.WARNING


@pytest.fixture
def soft_limit() -> Iterator[int]:
    """A soft limit of open files that is low for the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    yield min(soft, 512)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one(soft_limit):
    assert raise_descriptor_limit() == descriptor_limit() > soft_limit


def test_the_server_limits_connections_by_the_settings_and_the_soft_limit(soft_limit):
    made = server(_nothing, Settings(connections_per_address=3))
    guard = cast("partial[Any]", made.config.http).keywords["guard"]
    for _ in range(3):
        guard.limit.acquire("192.0.2.1")

    assert "PER_ADDRESS" in guard.limit.refusal("192.0.2.1")
    for number in range(soft_limit // 2 - 3):
        guard.limit.acquire(f"192.0.3.{number}")
    assert "open files" in guard.limit.refusal("192.0.2.2")


def test_the_server_trusts_the_proxies_of_the_settings():
    made = server(_nothing, read({"THRIFTGATE_TRUSTED_PROXIES": "10.0.0.0/8"}))
    guard = cast("partial[Any]", made.config.http).keywords["guard"]

    assert guard.proxies.is_trusted("10.1.2.3")
    assert not guard.proxies.is_trusted("192.0.2.1")


async def _nothing(_scope: Any, _receive: Any, _send: Any) -> None:
    """An app that answers nobody."""
