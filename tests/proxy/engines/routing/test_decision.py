from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.routing.decision import (
    ReplicaCost,
    RoutingRequest,
    credit_home,
    home_rule,
    rank_replicas,
)
from proxy.engines.routing.policy import RoutingPolicy
from proxy.engines.routing.prompt_chain import PromptChain
from proxy.engines.routing.replica import ReplicaCandidate

POLICY = RoutingPolicy(explore_share=0.0)


def request(link: int = 1, conversation: str = "") -> RoutingRequest:
    return RoutingRequest(chain=PromptChain((link,), 256, 300), conversation=conversation)


def cost(name: str, seconds: float, matched: int = 0, queue_s: float = 0.0, **more):
    return ReplicaCost(
        name,
        matched,
        300 - matched,
        queue_s,
        more.get("prefill_s", 0.0),
        seconds,
        more.get("is_full", False),
    )


def names(costs, query: RoutingRequest | None = None, policy: RoutingPolicy = POLICY) -> list[str]:
    asking = query or request()
    home = home_rule(asking, policy)
    return [cost.name for cost in rank_replicas(costs, asking, policy, home).order]


def test_replicas_are_ordered_by_cost():
    assert names([cost("a", 3), cost("b", 1), cost("c", 2)]) == ["b", "c", "a"]


def test_a_replica_with_a_far_longer_queue_or_a_full_cache_is_last():
    costs = [cost("a", 1, queue_s=30), cost("b", 2, is_full=True), cost("c", 3)]

    assert names(costs) == ["c", "a", "b"]


def test_replicas_that_are_all_full_are_still_tried():
    assert names([cost("a", 2, is_full=True), cost("b", 1, is_full=True)]) == ["b", "a"]


def test_no_candidate_gives_no_order_and_says_so():
    decision = rank_replicas([], request(), POLICY, home_rule(request(), POLICY))

    assert (decision.order, decision.why) == ((), "no replica may serve it")


def test_a_decision_says_in_a_few_words_on_what_it_rests():
    warm, cold, slow = cost("a", 1, matched=256), cost("b", 1), cost("a", 9, matched=256)

    def why(*costs: ReplicaCost) -> str:
        return rank_replicas(costs, request(), POLICY, home_rule(request(), POLICY)).why

    assert why(warm) == "only replica"
    assert why(warm, cost("b", 2)) == "warm: 256 of 300 tokens"
    assert why(slow, cold) == "warmest is busy or far: a"
    assert why(cold, cost("c", 5)) == "cold: least busy"
    assert why(cold, cost("c", 1)) == "cold: home"


def test_equal_replicas_are_shared_out_by_the_home_of_each_conversation():
    costs = [cost(name, 1) for name in "abcd"]
    homes = Counter(names(costs, request(conversation=str(n)))[0] for n in range(400))

    assert set(homes) == set("abcd")
    assert min(homes.values()) > 60


def test_of_equal_replicas_the_one_that_holds_most_of_the_prompt_is_first():
    costs = [
        cost(name, 1)._replace(matched_tokens=held)
        for name, held in zip("abcd", (0, 9, 5, 0), strict=True)
    ]

    assert names(costs, request(conversation="c"))[:2] == ["b", "c"]


def test_the_home_is_forgiven_prefill_by_the_share_of_load_that_others_send():
    costs = [cost(name, 5, prefill_s=4) for name in "abcd"]
    query = request(conversation="c")
    home = names(costs, query)[0]

    def seconds(others_share: float) -> dict[str, float]:
        credited = credit_home(costs, home_rule(query, POLICY), POLICY.home_credit * others_share)
        return {cost.name: cost.seconds for cost in credited}

    assert seconds(0.0) == dict.fromkeys("abcd", 5)
    assert seconds(0.5) == {**dict.fromkeys("abcd", 5), home: 5 - 0.5 * 4.0 * 4}
    assert credit_home([], home_rule(query, POLICY), 0.3) == []


def test_a_prompt_without_a_conversation_has_its_home_by_its_first_tokens():
    links = tuple(range(20))
    long, other = links, (*links[:9], 98, 99)
    keys = {
        RoutingRequest(chain=PromptChain(links, 256, 5_120)).home_key(2_048)
        for links in (long, other)
    }

    assert keys == {links[7].to_bytes(8, "big")}


def test_prompts_that_all_begin_alike_have_their_homes_by_what_follows():
    keys = {
        RoutingRequest(chain=PromptChain((*range(20), own), 256, 5_376)).home_key(2_048, 20)
        for own in (98, 99)
    }

    assert len(keys) == 2


@given(st.sets(st.sampled_from("abcdefgh"), min_size=2), st.text(max_size=5), st.data())
def test_one_replica_less_moves_only_the_conversations_whose_home_it_was(replicas, talk, data):
    before = names([cost(name, 1) for name in replicas], request(conversation=talk))
    gone = data.draw(st.sampled_from(sorted(replicas)))

    after = names([cost(name, 1) for name in replicas - {gone}], request(conversation=talk))

    assert after == [name for name in before if name != gone]


def test_one_call_in_a_hundred_tries_the_second_best_and_always_the_same_one():
    costs = [cost("a", 1), cost("b", 1.5)]
    query = [request(n) for n in range(5_000)]

    firsts = [names(costs, one, RoutingPolicy())[0] for one in query]

    assert 25 < firsts.count("b") < 75
    assert firsts == [names(costs, one, RoutingPolicy())[0] for one in query]


def test_a_second_best_that_costs_far_more_or_is_full_is_not_explored():
    policy = RoutingPolicy(explore_share=1.0)

    assert names([cost("a", 1), cost("b", 9)], policy=policy) == ["a", "b"]
    assert names([cost("a", 1), cost("b", 1.5, is_full=True)], policy=policy) == ["a", "b"]


def test_only_healthy_replicas_of_an_allowed_region_may_be_used():
    query = RoutingRequest(chain=request().chain, regions=frozenset({"eu"}))

    assert query.may_use(ReplicaCandidate(name="a", region="eu"))
    assert not query.may_use(ReplicaCandidate(name="a", region="us"))
    assert not query.may_use(ReplicaCandidate(name="a"))
    assert not query.may_use(ReplicaCandidate(name="a", region="eu", is_healthy=False))
