from sqlalchemy import Engine

from proxy.store.sql.cache_sums import CacheReader
from proxy.store.sql.dashboard_reads import LocalReads
from proxy.store.sql.savings import Savings


def test_methods_of_several_readers_run_over_one_engine(engine: Engine) -> None:
    reads = LocalReads(engine)

    assert reads.read(CacheReader.prompts_around_miss, "nobody").missed is None
    assert list(reads.read(Savings.compare, 0.0, team="nobody")) == []
