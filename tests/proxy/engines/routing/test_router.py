from array import array
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from proxy.engines.routing.decision import ReplicaCost, RoutingRequest
from proxy.engines.routing.kv_events import AllBlocksCleared, BlockStored, KvEventIndex
from proxy.engines.routing.policy import RoutingPolicy
from proxy.engines.routing.prompt_chain import PromptChain, chain_of_token_ids, chain_root
from proxy.engines.routing.replica import LoadReport, ReplicaCandidate
from proxy.engines.routing.router import ReplicaRouter, RoutedCall

BLOCK = 256
REPLICAS = [ReplicaCandidate(name=name) for name in "abcd"]
CALM = RoutingPolicy(explore_share=0.0)
TOKENS = tuple(range(1_024))
FULL = LoadReport(at=0, running=60, waiting=400)


def request(path: str = "p" * 40, **more) -> RoutingRequest:
    """A prompt of a block for each letter; equal beginnings are shared."""
    links = tuple(xxh3_64_intdigest(path[: end + 1].encode()) for end in range(len(path)))
    return RoutingRequest(chain=PromptChain(links, BLOCK, BLOCK * len(path)), **more)


def best_of(
    router: ReplicaRouter, query: RoutingRequest, replicas=REPLICAS, now: float = 0.0
) -> ReplicaCost:
    return router.decide(query, replicas, now).order[0]


def first(router: ReplicaRouter, query: RoutingRequest, replicas=REPLICAS, now: float = 0.0) -> str:
    return best_of(router, query, replicas, now).name


def send(
    router: ReplicaRouter, query: RoutingRequest, replicas=REPLICAS, now: float = 0.0
) -> RoutedCall:
    return router.send(query, best_of(router, query, replicas, now), now)


def serve(router: ReplicaRouter, query: RoutingRequest, cached: int | None = None) -> str:
    """Send a call to the first replica, and end it."""
    best = best_of(router, query)
    call = router.send(query, best, 0.0)
    call.begin_answer(0.0)
    call.end(0.0, best.matched_tokens if cached is None else cached)
    return best.name


def request_with_tokens() -> RoutingRequest:
    exact = chain_of_token_ids(chain_root("m", ""), array("I", TOKENS).tobytes(), 16)
    return replace(request("p" * 4), token_chain=exact)


@pytest.fixture(name="router")
def _router() -> ReplicaRouter:
    return ReplicaRouter(CALM)


def test_a_conversation_goes_on_where_its_prefix_is_warm(router):
    home = serve(router, request("a" * 40))

    assert serve(router, request("a" * 44)) == home


def test_a_conversation_leaves_a_replica_that_failed_and_stays_with_the_next(router):
    home = serve(router, request())
    left = [replica for replica in REPLICAS if replica.name != home]

    best = best_of(router, request(), left, 0.0)
    router.send(request(), best, 0.0).end(0.0, 0)

    assert best.name != home
    assert first(router, request(), left) == best.name


def test_a_conversation_yields_to_overload_and_says_so(router):
    home = serve(router, request())
    busy = [replace(one, load=FULL if one.name == home else None) for one in REPLICAS]

    decision = router.decide(request(), busy, 1.0)

    assert decision.order[0].name != home
    assert decision.why == f"warmest is busy or far: {home}"


def test_an_old_load_report_is_left_out(router):
    home = serve(router, request())
    busy = [replace(one, load=FULL if one.name == home else None) for one in REPLICAS]

    assert first(router, request(), busy, now=60.0) == home


def test_own_calls_that_ended_since_a_report_are_no_load_of_others():
    router, only = ReplicaRouter(CALM), [replace(REPLICAS[0], slots=4)]
    sent = [send(router, request(letter), only, 0.0) for letter in "stuv"]
    read = [replace(only[0], load=LoadReport(at=0.0, running=4, own=4))]
    for call in sent:
        call.end(1.0)

    assert best_of(router, request(), read, 1.0).queue_s == 0.0


def test_calls_on_their_way_count_as_load_before_any_report_shows_them(router):
    sent = [send(router, query) for query in (request(letter * 40) for letter in "stuv")]

    costs = router.decide(request(), REPLICAS, 0.0).order
    assert [cost.queue_s for cost in costs] == pytest.approx([1.024] * 4)
    for call in sent:
        call.end(0.0)
        call.end(0.0)
    assert [cost.queue_s for cost in router.decide(request(), REPLICAS, 0.0).order] == [0.0] * 4


def test_a_call_outside_its_preferred_region_pays_for_it_unless_it_is_warm_there():
    near, far = ReplicaCandidate(name="n", region="eu"), ReplicaCandidate(name="f", region="us")
    router, query = ReplicaRouter(CALM), request("a" * 40, preferred_region="eu")
    assert first(router, query, [near, far]) == "n"

    costs = router.decide(query, [near, far], 0.0).order
    router.send(query, costs[1], 0.0).end(0.0, 0)

    again = request("a" * 44, preferred_region="eu")
    assert first(router, again, [near, far]) == "f"


def in_flight(router: ReplicaRouter, replicas, calls: int, path: str = "p" * 16) -> Counter[str]:
    """The replicas of so many calls that begin alike, end otherwise, and are all under way."""
    names: Counter[str] = Counter()
    for number in range(calls):
        query = request(path + chr(ord("A") + number))
        best = best_of(router, query, replicas, 0.0)
        router.send(query, best, 0.0).begin_answer(0.0)
        names[best.name] += 1
    return names


def test_calls_that_share_a_prefix_are_spread_over_the_slots_of_all_replicas():
    four = [replace(replica, slots=4) for replica in REPLICAS[:2]]
    router = ReplicaRouter(CALM)
    warm = send(router, request(), four, 0.0)
    warm.begin_answer(0.1)
    warm.end(3.0, 0)

    assert sorted(in_flight(router, four, 8).values()) == [4, 4]


def test_a_replica_that_is_added_gets_its_share_of_calls_with_a_common_prefix():
    router, two = ReplicaRouter(CALM), [replace(replica, slots=8) for replica in REPLICAS[:2]]
    for number in range(40):
        query = request("p" * 16 + chr(ord("A") + number))
        call = send(router, query, two[:1], 0.0)
        call.begin_answer(0.1)
        call.end(2.0, 0)

    assert min(in_flight(router, two, 12).values()) >= 5


def test_a_call_goes_elsewhere_where_all_slots_of_the_warm_replica_are_taken_for_long():
    router, two = ReplicaRouter(CALM), [replace(replica, slots=1) for replica in REPLICAS[:2]]
    best = best_of(router, request("s" * 4), two, 0.0)
    call = router.send(request("s" * 4), best, 0.0)
    call.begin_answer(0.1)
    call.end(30.1, 0)
    assert first(router, request("s" * 5), two, 40.0) == best.name

    router.send(request("s" * 4), best, 40.0).begin_answer(40.1)

    assert first(router, request("s" * 5), two, 41.0) != best.name


@pytest.mark.parametrize(("new_blocks", "is_kept"), [(1, True), (40, False)])
def test_a_short_warm_prefix_is_waited_for_where_it_is_most_of_the_prompt(
    router, new_blocks, is_kept
):
    home = serve(router, request("s" * 4))
    busy = [replace(one, load=LoadReport(at=0, waiting=5 * (one.name == home))) for one in REPLICAS]

    assert (first(router, request("s" * 4 + "n" * new_blocks), busy) == home) == is_kept


def test_a_replica_that_begins_far_later_than_the_others_loses_its_share_without_any_report(router):
    names: Counter[str] = Counter()
    for number in range(90):
        path = f"{number:02}" * 8
        query = request(path)
        now = float(number)
        best = best_of(router, query, REPLICAS[:3], now)
        slow = 15.0 if best.name == "b" else 1.0
        call = router.send(query, best, now)
        call.begin_answer(now + 0.4 * slow)
        call.end(now + 0.4 * slow + 0.2, 0)
        names[best.name] += number >= 30

    assert names["b"] <= 10
    assert min(names["a"], names["c"]) >= 15


def test_calls_whose_first_token_is_overdue_count_as_a_queue(router):
    best = best_of(router, request())
    router.send(request(), best, 0.0)

    queues = {cost.name: cost.queue_s for cost in router.decide(request("q"), REPLICAS, 9.0).order}

    assert queues.pop(best.name) > 7.0
    assert set(queues.values()) == {0.0}


def test_an_answer_in_one_piece_is_not_taken_for_a_late_first_token(router):
    best = best_of(router, request())
    call = router.send(request(), best, 0.0, is_streaming=False)
    call.begin_answer(9.0)
    call.end(9.0, 0)

    again = next(c for c in router.decide(request(), REPLICAS, 9.0).order if c.name == best.name)

    assert again.slowness == 1.0
    assert again.run_s == pytest.approx(9.0 - best.ttft_s)


@given(
    st.lists(
        st.builds(
            ReplicaCandidate,
            name=st.sampled_from("abcdefgh"),
            region=st.sampled_from(["", "eu", "us"]),
            is_healthy=st.booleans(),
            round_trip_s=st.floats(0, 5),
            prefill_tokens_per_s=st.floats(0, 1e6),
            load=st.none()
            | st.builds(
                LoadReport,
                at=st.floats(0, 10),
                running=st.integers(0, 500),
                waiting=st.integers(0, 500),
                kv_usage=st.floats(0, 1),
            ),
        ),
        unique_by=lambda replica: replica.name,
    ),
    st.frozensets(st.sampled_from(["eu", "us"])),
    st.lists(st.text("pq", max_size=6), max_size=5),
)
def test_no_call_goes_to_an_unhealthy_replica_or_a_region_that_is_not_allowed(
    replicas, regions, prompts
):
    router = ReplicaRouter(RoutingPolicy(explore_share=0.5))
    allowed = {e.name for e in replicas if e.is_healthy and (not regions or e.region in regions)}
    for path in prompts:
        query = request(path, regions=regions, preferred_region="eu")
        order = router.decide(query, replicas, 5.0).order

        assert {cost.name for cost in order} == allowed
        for cost in order[:1]:
            router.send(query, cost, 0.0).end(0.0, 0)


@given(st.lists(st.text("pqr", max_size=8), max_size=20), st.text("pqr", max_size=8))
def test_two_gateways_that_saw_the_same_calls_decide_alike(prompts, last):
    routers = [ReplicaRouter(), ReplicaRouter()]
    for path in prompts:
        assert len({serve(router, request(path, conversation="c")) for router in routers}) == 1

    orders = [
        router.decide(request(last), REPLICAS[::step], 0.0)
        for router, step in zip(routers, (1, -1), strict=True)
    ]
    assert orders[0] == orders[1]


@given(st.text(min_size=1, max_size=6))
def test_gateways_that_saw_nothing_send_a_conversation_to_the_same_home(conversation):
    query = request(conversation=conversation)

    assert first(ReplicaRouter(), query) == first(ReplicaRouter(), query)


def test_a_gateway_beside_others_prefers_the_home_to_the_shortest_queue():
    alone, beside = ReplicaRouter(replace(CALM, home_credit=0.0)), ReplicaRouter(CALM)
    query = request("z" * 40, conversation="c")
    home = first(ReplicaRouter(CALM), query)
    busy = [
        replace(replica, load=LoadReport(at=0, running=30 if replica.name == home else 10))
        for replica in REPLICAS
    ]
    for _ in range(200):
        beside.decide(request("y"), busy, 0.0)

    assert first(alone, query, busy) != home
    assert first(beside, query, busy) == home


def test_one_answer_after_a_silent_restart_corrects_what_all_conversations_expect(router):
    only = REPLICAS[:1]
    talks = [request(letter * 40) for letter in "stuvw"]
    for query in talks:
        send(router, query, only, 0.0).end(0.0, 0)

    send(router, talks[-1], only, 0.0).end(0.0, 0)

    expected = [best_of(router, query, only, 0.0).matched_tokens for query in talks]
    assert expected == [0, 0, 0, 0, 40 * BLOCK]


def test_a_known_restart_forgets_one_replica_and_no_other(router):
    home = serve(router, request())

    router.clear_cache(home)
    router.clear_cache("never seen")

    assert best_of(router, request()).matched_tokens == 0


def test_reuse_is_counted_as_available_captured_and_delivered(router):
    home = serve(router, request("a" * 40))
    left = [replica for replica in REPLICAS if replica.name != home]

    best = best_of(router, request("a" * 40), left, 0.0)
    router.send(request("a" * 40), best, 0.0).end(0.0, 0)
    serve(router, request("a" * 40), cached=9_000)
    send(router, request("z" * 40), left, 0.0).end(0.0)

    whole, reuse = 40 * BLOCK, router.reuse
    assert (reuse.calls, reuse.prompt_tokens) == (4, 4 * whole)
    assert (reuse.available, reuse.captured, reuse.delivered) == (2 * whole, whole, 9_000)


def test_router_learns_nothing_from_a_call_whose_prompt_was_changed(router):
    home = serve(router, request())
    best = best_of(router, request())
    router.send(request(), best, 0.0).end(0.0, 0, is_comparable=False)

    after = best_of(router, request())
    assert (after.name, after.matched_tokens) == (home, 40 * BLOCK)


def test_calls_in_flight_are_counted_by_replica(router):
    best = best_of(router, request())
    call = router.send(request(), best, 0.0)

    assert (router.calls_in_flight(best.name), router.calls_in_flight("never seen")) == (1, 0)
    call.end(0.0)
    assert router.calls_in_flight(best.name) == 0


def test_the_event_index_of_a_replica_goes_over_the_guess_of_its_cache():
    router, index, query = ReplicaRouter(CALM), KvEventIndex("m", 1_000), request_with_tokens()
    stored = BlockStored(
        block_hashes=tuple(range(50)), parent_block_hash=None, token_ids=TOKENS[:800], block_size=16
    )
    router.decide(query, REPLICAS, 0.0)
    router.read_events("c", index)
    router.read_events("never seen", index)
    index.apply(0, [stored])

    best = best_of(router, query)
    router.send(query, best, 0.0).end(0.0, 0)

    assert (best.name, best.matched_tokens) == ("c", 800)


def test_events_that_began_late_add_to_the_guess_and_do_not_replace_it():
    router, index, query = ReplicaRouter(CALM), KvEventIndex("m", 1_000), request_with_tokens()
    first = best_of(router, query)
    router.send(query, first, 0.0).end(0.0)
    router.read_events(first.name, index)
    index.apply(7, [])

    late = best_of(router, query)
    index.apply(8, [AllBlocksCleared()])
    cleared = next(
        cost for cost in router.decide(query, REPLICAS, 0.0).order if cost.name == first.name
    )

    assert late.matched_tokens > 0
    assert cleared.matched_tokens == 0


def test_the_router_forgets_replicas_that_are_gone(router):
    for number in range(1_000):
        router.decide(request("p"), [ReplicaCandidate(name=str(number))], 0.0)

    assert len(router) == 256
