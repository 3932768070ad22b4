"""Children of a measurement: started, waited for, and ended."""

import socket
import sys
from pathlib import Path

import pytest

from tests.bench.gateway import process
from tests.fakes.free_port import first_of_clients, free_port

_DYING = "import sys; sys.exit('no room for the journal')"
_LISTENING = "import socket, sys; socket.create_server(('127.0.0.1', int(sys.argv[1]))).accept()"


def test_a_child_that_ends_before_it_listens_is_reported_with_what_it_wrote(tmp_path: Path):
    with (
        (tmp_path / "log").open("wb") as log,
        pytest.raises(SystemExit, match=r"(?s)ended with 1 .*no room for the journal"),
        process([sys.executable, "-c", _DYING], None, free_port(), log),
    ):
        pass


def test_a_child_is_waited_for_until_it_listens():
    port = free_port()
    with process([sys.executable, "-c", _LISTENING, str(port)], None, port) as pid:
        assert pid > 0


def test_a_free_port_is_none_that_a_client_s_connection_may_take():
    assert free_port() < first_of_clients()


def test_a_free_port_can_be_listened_on():
    socket.create_server(("127.0.0.1", free_port())).close()
