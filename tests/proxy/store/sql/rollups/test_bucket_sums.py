from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, literal_column, select

from proxy.store.sql.rollups.bucket_sums import bucket_case
from tests.examples import examples

SQLITE = create_engine("sqlite://")


@examples(60)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True).map(sorted), st.data())
def test_the_bucket_of_a_moment_is_that_of_the_latest_start_before_it(starts, data) -> None:
    buckets = [data.draw(st.integers(-1, 3)) for _ in starts]
    moment = data.draw(st.integers(starts[0], 60))
    case = bucket_case(literal_column(str(moment)), list(zip(starts, buckets, strict=True)))

    with SQLITE.connect() as connection:
        assert (
            connection.execute(select(case)).scalar() == buckets[bisect_right(starts, moment) - 1]
        )
