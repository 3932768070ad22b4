"""Nothing that was delivered is lost, and nothing doubled: kill -9, and a database that goes away.

``python -m tests.bench.kill`` and ``python -m tests.bench.outage`` do the same for longer.
"""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from proxy.fast_path.answer_cache.cached_answer import reason_not_kept
from tests.bench.kill import kill_sharing_answers, kill_under_load
from tests.bench.outage import outage, took
from tests.fakes.background_loop import running_in_thread
from tests.fakes.gateway_fixture import running_simulator
from tests.fakes.ledger_check import check_ledger
from tests.fakes.load import Load
from tests.fakes.postgres import SERVER, schema
from tests.fakes.redis_server import ABSENT, PROGRAM, own_redis
from tests.fakes.serve_process import serve_process


@pytest.fixture
def postgres() -> Iterator[str]:
    try:
        psycopg.connect(SERVER, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at THRIFTGATE_TEST_POSTGRES ({SERVER}): {error}")
    with schema() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres"))


#: Seconds a caller waits between two calls: a dozen are under way at any time, and the machine is
#: left some of its time.
PAUSE = 0.1


def test_kill_9_under_load_loses_and_doubles_no_call_that_was_delivered(
    tmp_path: Path, url: str
) -> None:
    load, ledger = kill_under_load(tmp_path, url, kills=2, pause=PAUSE)

    assert ledger.delivered > 100
    assert load.broken > 0
    assert load.refused.keys() <= {"503 database_unavailable"}  # while its ledger opens slowly
    assert ledger.lost == []
    assert ledger.doubled == 0
    assert ledger.adrift == {}
    assert ledger.undrained == 0


@pytest.mark.skipif(PROGRAM is None, reason=ABSENT)
def test_kill_9_of_gateway_and_redis_loses_no_receipt_of_a_hit_and_tears_no_answer(
    tmp_path: Path,
) -> None:
    with own_redis(tmp_path) as redis:
        load, ledger, stored = kill_sharing_answers(tmp_path, redis, kills=1, pause=PAUSE)

    assert ledger.delivered > 200
    assert load.hits > 50
    assert load.broken > 0
    assert (ledger.lost, ledger.doubled, ledger.adrift) == ([], 0, {})
    assert ledger.undrained == 0
    assert stored
    for answer in stored:
        assert answer is not None
        assert reason_not_kept("chat/completions", answer.body, keeps_tool_calls=False) == ""


def test_a_gateway_told_to_stop_ends_its_answers_and_drains_its_journal(tmp_path: Path) -> None:
    with (
        running_in_thread(lambda: running_simulator(tmp_path, time_scale=0.02)) as (_, catalog),
        serve_process(tmp_path, catalog) as gateway,
    ):
        gateway.start()
        load = Load(gateway.url, gateway.key, pause=PAUSE)
        with load.running():
            took(lambda: len(load.delivered) > 50)
            gateway.stop()
        ledger = check_ledger(gateway, load)

    assert ledger.delivered > 50
    assert load.cut == 0
    assert ledger.is_whole


def test_calls_are_answered_while_the_database_is_away_and_kept_when_it_is_back(
    tmp_path: Path, postgres: str
) -> None:
    came = outage(tmp_path, postgres, seconds=2.5, lead=0.5, pause=PAUSE)

    assert came.meanwhile > 100
    assert not came.load.refused
    assert came.load.broken == 0
    assert came.status == 200
    assert any("database" in note for note in came.notes)
    assert came.recovery < 15
    assert came.found.is_whole
