from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.bills import bill_prompt, call_usage
from proxy.caches.port import Served, Ttl
from slo.usage import Usage

LIFETIMES: dict[Ttl, float] = {"5m": 300, "1h": 3_600}


def test_2_1_read_a_then_an_hour_up_to_b_then_five_minutes_up_to_c() -> None:
    """Mixed lifetimes: A the highest hit, B the highest hour mark after it, C the last mark."""
    served = bill_prompt(1_000, 100, [(50, "1h"), (300, "1h"), (400, "1h"), (900, "5m")], LIFETIMES)

    assert (served.read, served.written, served.fresh) == (100, {"1h": 300, "5m": 500}, 100)


def test_a_shorter_lifetime_before_a_longer_one_costs_nothing_of_its_own() -> None:
    assert bill_prompt(500, 0, [(200, "5m"), (400, "1h")], LIFETIMES).written == {"1h": 400}


def test_a_bill_without_writes_leaves_the_rest_fresh() -> None:
    served = bill_prompt(500, 200, [], LIFETIMES)

    assert (served.read, served.written, served.fresh) == (200, {}, 300)


@given(
    st.integers(0, 500),
    st.lists(st.tuples(st.integers(0, 1_000), st.sampled_from(["5m", "1h"]))),
)
def test_every_token_is_charged_once(hit: int, writes: list[tuple[int, Ttl]]) -> None:
    served = bill_prompt(1_000, hit, writes, LIFETIMES)

    assert served.read + served.fresh + sum(served.written.values()) == 1_000
    assert all(count > 0 for count in served.written.values())


def test_tokens_served_by_a_cache_become_usage() -> None:
    served = Served(read=5, fresh=1, written={"5m": 2, "30m": 3, "1h": 4, "12h": 6})

    assert call_usage(served, output=7, reasoning=8) == Usage(
        input=1,
        cache_read=5,
        write_5m=2,
        write_30m=3,
        write_1h=4,
        write_12h=6,
        output=7,
        reasoning=8,
    )


def test_a_cache_without_paid_writes_leaves_the_rest_as_input() -> None:
    assert call_usage(Served(read=5, fresh=3)) == Usage(input=3, cache_read=5)
