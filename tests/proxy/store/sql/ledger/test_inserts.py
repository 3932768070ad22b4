import random
from collections import ChainMap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from proxy.records.receipt import Outcome, Receipt
from proxy.store.errors import StoreError
from proxy.store.sql.database import migrate, open_database
from proxy.store.sql.ledger.inserts import Insert, inserter
from slo.usage import Usage
from tests.fakes.databases import migrated_sqlite
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.receipts import START, a_receipt, an_engine_receipt, rolled_up

MIXED = [
    *(a_receipt(n) for n in range(20)),
    a_receipt(20, final=False, outcome=Outcome.FAILED, status=529, error="overloaded", ttft=None),
    a_receipt(20, attempt=1, route="lab/second"),
    a_receipt(21, outcome=Outcome.REFUSED, usage=None, list_nanos=None, cost_nanos=None),
    a_receipt(22, list_nanos=None, cost_nanos=None),
    a_receipt(22, call_id="call_z", cost_nanos=5, list_nanos=None),
    a_receipt(23, outcome=Outcome.HUNG_UP, estimated=True, usage=Usage(output=1)),
    a_receipt(24, outcome=Outcome.BROKEN, started=START + 900),
    a_receipt(
        26,
        conversation="ab" * 16,
        arm="control",
        layout=2,
        expected_read=4096,
        miss="diverged",
        miss_detail="system line 4 changed",
        miss_tokens=3000,
        miss_nanos=5_000_000,
        planning_nanos=-7,
        read_saved_nanos=11,
        write_extra_nanos=3,
    ),
    a_receipt(27, compaction="facts", compaction_nanos=9, planning_nanos=4, cost_nanos=None),
    a_receipt(28, compaction_why="notes", cost_nanos=6),
    a_receipt(25, feature="'; DROP TABLE calls; -- % :x ? é\u2028"),
    *(an_engine_receipt(n) for n in range(40, 46)),
    an_engine_receipt(47, queue=None, draft_tokens=None, accepted_tokens=None),
]


def test_receipts_are_kept_whole_and_rolled_up_by_quarter_hours(engine: Engine) -> None:
    inserter(engine)(MIXED)

    assert ledger_of(engine) == sorted(MIXED, key=lambda each: (each.call_id, each.attempt))
    assert rollups_of(engine) == rolled_up(MIXED)


def test_a_batch_that_comes_again_whole_or_in_part_changes_nothing(engine: Engine) -> None:
    insert = inserter(engine)
    insert(MIXED[:9])
    insert(MIXED[5:] + MIXED[:7] + MIXED[5:])
    insert(MIXED)

    assert len(ledger_of(engine)) == len(MIXED)
    assert rollups_of(engine) == rolled_up(MIXED)


def test_the_order_of_arrival_does_not_matter(engine: Engine) -> None:
    shuffled = random.Random(5).sample(MIXED, len(MIXED))  # noqa: S311 - an order, not a secret
    insert = inserter(engine)
    for start in range(0, len(shuffled), 4):
        insert(shuffled[start : start + 4])

    assert rollups_of(engine) == rolled_up(MIXED)


def test_calls_that_differ_are_inserted_by_few_statements(tmp_path: Path) -> None:
    features: list[dict[str, Any]] = [
        {"conversation": "ab" * 16},
        {"layout": 2},
        {"miss": "diverged"},
        {"ttft": None},
        {"compaction": "facts"},
    ]
    engine = open_database(migrated_sqlite(tmp_path / "calls.db"))
    insert, statements = inserter(engine), set[str]()
    event.listen(engine, "before_cursor_execute", lambda *said: statements.add(said[2]))
    for n in range(1 << len(features)):
        mixed = [more for place, more in enumerate(features) if n >> place & 1]
        insert([a_receipt(n, **dict(ChainMap(*mixed)))])
    engine.dispose()

    inserts = [statement for statement in statements if statement.startswith("INSERT INTO calls")]
    assert len(inserts) <= 1 + len(features)


def test_a_batch_of_several_statements_is_kept_whole(engine: Engine) -> None:
    many = [an_engine_receipt(n) if n % 50 == 49 else a_receipt(n) for n in range(595)]
    inserter(engine)(many)

    assert ledger_of(engine) == many
    assert rollups_of(engine) == rolled_up(many)


def test_writers_that_race_with_the_same_receipts_count_each_once(url: str, engine: Engine) -> None:
    """Eight writers, each with its own connections, all of them with all receipts, shuffled."""
    receipts = [a_receipt(n) for n in range(300)]

    def write(seed: int) -> None:
        own = open_database(url)
        insert = inserter(own)
        mine = random.Random(seed).sample(receipts, len(receipts))  # noqa: S311 - as above
        for start in range(0, len(mine), 30):
            patiently(insert, mine[start : start + 30])
        own.dispose()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))

    assert ledger_of(engine) == receipts
    assert rollups_of(engine) == rolled_up(receipts)


def patiently(insert: Insert, some: list[Receipt]) -> None:
    """Try again what the database asks to be tried again, as the drain does."""
    for _ in range(50):
        try:
            insert(some)
        except StoreError:
            continue
        return
    pytest.fail("fifty deadlocks in a row")


@pytest.mark.parametrize(
    "absurd",
    [
        a_receipt(0, cost_nanos=2**62),
        a_receipt(0, usage=Usage(output=2**80)),
        a_receipt(0, status=2**40, attempt=2**70),
    ],
)
def test_a_receipt_that_can_never_be_kept_is_unfit_and_takes_nothing_with_it(
    engine: Engine, absurd: Receipt
) -> None:
    insert = inserter(engine)
    assert insert([a_receipt(1), absurd])

    assert ledger_of(engine) == []
    assert rollups_of(engine) == {}


def test_a_key_too_large_for_postgresqls_index_is_unfit(postgres: str) -> None:
    engine = open_database(postgres)
    noise = "".join(map(chr, random.Random(1).choices(range(33, 0x2FFF), k=9_000)))  # noqa: S311
    migrate(engine)
    why = inserter(engine)([a_receipt(0, feature=noise)])
    engine.dispose()
    assert why is not None
    assert "index row" in why


def test_tables_that_are_not_there_are_trouble_that_may_pass(empty_url: str) -> None:
    engine = open_database(empty_url)
    with pytest.raises(StoreError):
        inserter(engine)([a_receipt(0)])
    engine.dispose()


def test_a_kept_prompt_is_kept_once(engine: Engine) -> None:
    insert = inserter(engine)
    insert([a_receipt(1, prompt="{}"), a_receipt(1, attempt=1, prompt="{}"), a_receipt(2)])
    insert([a_receipt(1, prompt="{}")])

    with engine.connect() as connection:
        prompts = connection.exec_driver_sql("SELECT call_id, text FROM prompts").all()
    assert [tuple(row) for row in prompts] == [(a_receipt(1).call_id, "{}")]
