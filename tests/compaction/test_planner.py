from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from compaction.compacted_part import SegmentCache
from compaction.conversation_view import view_conversation
from compaction.cost_model import CompactionReason
from compaction.memory import CompactionState
from compaction.planner import CompactionPlanner
from compaction.policy import CompactionMode, CompactionPolicy, RelativePrices
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.prefix_digests import prefix_digests
from compaction.reading.token_estimate import estimate_tokens
from tests.fakes.chat_messages import assistant, system, tool_call_and_result, user

_FORCE = CompactionPolicy(force=True, least=300, prices=RelativePrices(read=0.1, write=1.25))
_PAGE = "\n".join(f"{n}: line {n * n}" for n in range(900))
_WORDS = "as I said before, in so many words, it is just as it was " * 8


def conversation(turns: int) -> list[bytes]:
    raws = [system("You help.")]
    for turn in range(turns):
        raws += [
            user(f"Look at ORD-{turn}77."),
            *tool_call_and_result(
                "get_order", {"id": f"ORD-{turn}77"}, {"id": f"ORD-{turn}77", "fee": turn}
            ),
            assistant(f"It costs {turn} dollars. {_WORDS}"),
        ]
    return [*raws, user("Thank you.")]


def walk(raws: list[bytes], policy: CompactionPolicy = _FORCE) -> CompactionPlanner:
    messages = ParsedMessageCache().messages(raws, estimate_tokens)
    keys = prefix_digests([message.digest for message in messages], b"")
    view = view_conversation(messages)
    return CompactionPlanner(
        conversation=view,
        policy=policy,
        fixed=100,
        count=estimate_tokens,
        keys=keys,
        segments=SegmentCache(100, 1 << 20),
    )


def state_at_end(way: CompactionPlanner) -> CompactionState:
    return last_state(way, way.initial_state())


def last_state(way: CompactionPlanner, state: CompactionState) -> CompactionState:
    return list(way.states(state))[-1]


def test_each_point_is_a_call():
    way = walk(conversation(5))

    state = state_at_end(way)

    assert state.calls == len(list(way.conversation.points_after(0))) == 11
    assert state.suffix.end == len(way.conversation.messages)


def test_a_walk_goes_on_where_it_ended():
    raws = conversation(12)
    half = walk(raws[:25])
    whole = walk(raws)

    on = last_state(whole, state_at_end(half))

    assert on.parts == state_at_end(whole).parts
    assert on == state_at_end(whole)


def test_parts_follow_each_other_without_a_gap():
    way = walk(conversation(30))

    compacts = state_at_end(way).parts

    assert len(compacts) > 3
    assert compacts[0].segment.start == way.conversation.lead
    for before, after in pairwise(compacts):
        assert before.segment.end == after.segment.start
        assert before.at < after.at
        assert before.segment.end <= before.at


def test_sent_tokens_are_the_sum_of_their_parts():
    way = walk(conversation(30))

    state = state_at_end(way)

    assert state.sent == 100 + way.conversation.cumulative_tokens[
        way.conversation.lead
    ] + state.suffix.tokens + sum(compaction.tokens for compaction in state.parts)
    assert state.raw == 100 + way.conversation.cumulative_tokens[-1]


def test_each_call_of_a_shorter_conversation_fills_the_bank_and_a_compaction_takes_from_it():
    way = walk(
        conversation(30), CompactionPolicy(prices=RelativePrices(read=0.1, write=1.25), least=10**9)
    )
    uncompacted = state_at_end(way)
    once = walk(
        conversation(30),
        CompactionPolicy(force=True, once=True, prices=RelativePrices(read=0.1, write=1.25)),
    )

    assert uncompacted.bank == 0
    assert uncompacted.decision.reason in {CompactionReason.BELOW_LEAST, CompactionReason.TOO_EARLY}
    assert state_at_end(once).bank < 0
    assert state_at_end(walk(conversation(60))).bank > 0


def test_a_compaction_without_progress_is_tried_again_at_twice_the_size():
    raws = [system("s")]
    for turn in range(40):
        raws += [user(f"{turn} " + "all of it are words of the user that have to stay " * 9),
                 assistant("Yes.")]  # fmt: skip
    way = walk(
        [*raws, user("So?")],
        CompactionPolicy(prices=RelativePrices(read=0.1, write=0.1), least=100),
    )

    state = state_at_end(way)

    assert not state.parts
    assert state.failed
    assert state.share > 0.9


def desk(turns: int) -> list[bytes]:
    """A conversation about orders, of which nearly all are values."""
    raws = [system("You help.")]
    for turn in range(turns):
        order = {f"item{number}": f"SKU-{turn}{number}{number}7" for number in range(12)}
        raws += [
            user(f"Look at ORD-{turn}77."),
            *tool_call_and_result("get_order", {"id": f"ORD-{turn}77"}, order),
            assistant("Yes."),
        ]
    return [*raws, user("Thank you.")]


def test_no_segment_is_fitted_where_the_room_alone_shows_that_it_comes_too_early():
    prices = RelativePrices(read=0.1, write=1.25)
    analyses: list[str] = []

    def find(analyze: Callable[..., Any], /, *texts: str) -> Any:
        analyses.append(analyze.__name__)
        return analyze(*texts)

    def pruned_results(policy: CompactionPolicy) -> tuple[CompactionState, int]:
        way = msgspec.structs.replace(walk(desk(20), policy), find=find)
        analyses.clear()
        return state_at_end(way), analyses.count("_pruned_lines")

    early, pruned = pruned_results(CompactionPolicy(prices=prices, least=300))
    due, pruned_then = pruned_results(CompactionPolicy(prices=prices, least=300, window=3_000))

    assert early.decision.reason is CompactionReason.TOO_EARLY
    assert 0.6 < early.share < 0.7
    assert not pruned
    assert due.parts
    assert pruned_then


def test_each_segment_that_is_built_is_used():
    shortened: list[str] = []

    def find(analyze: Callable[..., Any], /, *texts: str) -> Any:
        shortened.append(texts[0] if analyze.__name__ == "_pruned_lines" else "")
        return analyze(*texts)

    policy = CompactionPolicy(prices=RelativePrices(read=0.1, write=0.3), least=300)
    state = state_at_end(msgspec.structs.replace(walk(desk(60), policy), find=find))
    results = [text for text in shortened if text]

    assert len(state.parts) == 2
    assert {results.count(text) for text in results} == {2}  # in two degrees of detail


WORDS_TO_KEEP = [
    speaker(" ".join(f"AB-{turn}{word}" for word in words))
    for turn in range(60)
    for speaker, words in ((user, range(20)), (assistant, range(20, 30)))
]
LONG_ANSWERS = [
    raw
    for turn in range(120)
    for raw in (user(f"And {turn}?"), assistant("It was a long and quiet day. " * 60))
]


@pytest.mark.parametrize(
    "policy",
    [
        CompactionPolicy(window=16_000),
        CompactionPolicy(prices=RelativePrices(read=0.1, least=1_024, block=128)),
    ],
)
def test_a_conversation_that_could_not_be_shortened_is_once_it_can_be(policy):
    way = walk([system("s"), *WORDS_TO_KEEP, *LONG_ANSWERS, user("So?")], policy)

    state = state_at_end(way)

    assert state.raw > 50_000
    assert state.sent < state.raw / 2


def test_fewer_of_the_last_turns_stay_where_they_take_most_of_a_target():
    ends = [
        state_at_end(walk(conversation(30), CompactionPolicy(force=True, once=True, target=target)))
        .parts[0]
        .segment.end
        for target in (0, 4_000, 200)
    ]

    assert ends[0] == ends[1] < ends[2]


def test_results_below_the_cache_minimum_are_not_trimmed():
    raws = conversation(3)
    page = "\n".join(f"{n}: the same line" for n in range(40))
    raws[2:2] = [*tool_call_and_result("read", {}, page), *tool_call_and_result("read", {}, page)]
    trim = CompactionPolicy(
        mode=CompactionMode.TRIM, prices=RelativePrices(read=0.1, least=100_000)
    )

    assert not state_at_end(walk(raws, trim)).suffix.replaced
    assert state_at_end(walk(raws, CompactionPolicy(mode=CompactionMode.TRIM))).suffix.replaced


def test_on_a_coarse_cache_results_stay_whole_until_the_prompt_is_some_steps_long():
    raws = conversation(3)
    page = "\n".join(f"{n}: the same line" for n in range(400))
    raws[2:2] = [*tool_call_and_result("read", {}, page), *tool_call_and_result("read", {}, page)]

    def trims_results(prices: RelativePrices) -> bool:
        return bool(
            state_at_end(
                walk(raws, CompactionPolicy(mode=CompactionMode.TRIM, prices=prices))
            ).suffix.replaced
        )

    assert (
        2_048 < state_at_end(walk(raws, CompactionPolicy(mode=CompactionMode.OFF))).raw < 4 * 2_048
    )
    assert not trims_results(RelativePrices(read=0.1, least=1_024, block=2_048))
    assert trims_results(RelativePrices(read=0.1, least=1_024, block=128))
    assert trims_results(RelativePrices(read=0.1, block=256))


def read_again(path: str, policy: CompactionPolicy, turns: int = 8) -> CompactionState:
    """A page was read in the first of some turns, and in the last one this."""
    pages = {"a.py": _PAGE, "b.py": "It is empty."}
    talked = conversation(turns)
    first, last = (
        tool_call_and_result("read", {"path": page_path}, pages[page_path])
        for page_path in ("a.py", path)
    )
    return state_at_end(walk([*talked[:2], *first, *talked[2:-1], *last, talked[-1]], policy))


def test_no_compaction_where_the_suffix_grows_by_as_much():
    near = CompactionPolicy(once=True, window=8_400)
    other, again = read_again("b.py", near), read_again("a.py", near)

    assert other.decision.reason is CompactionReason.WINDOW
    assert other.parts
    assert any(
        b"same as the earlier result" in replacement.raw
        for replacement in again.suffix.replaced.values()
    )
    assert again.decision.reason is CompactionReason.NO_PROGRESS
    assert again.parts == ()


def test_a_compaction_is_charged_with_the_regrowth_of_the_suffix():
    prices = RelativePrices(read=0.1, write=1.25)
    before = read_again("a.py", CompactionPolicy(mode=CompactionMode.TRIM, prices=prices), 16)
    after = read_again("a.py", CompactionPolicy(force=True, once=True, prices=prices), 16)
    earned = prices.write * (before.raw - before.sent) + prices.read * (before.sent - after.sent)

    assert after.parts
    assert after.bank < earned - (prices.write - prices.read) * estimate_tokens(_PAGE)


def test_the_target_leaves_room_for_the_regrowth_of_the_suffix():
    raws = conversation(30)
    raws[-1] = user("Thank you. And ORD-077 ORD-177 ORD-277?")
    whole = state_at_end(walk(raws, CompactionPolicy(force=True, once=True))).sent

    for target in range(whole * 2 // 3, whole, 60):
        assert (
            state_at_end(walk(raws, CompactionPolicy(force=True, once=True, target=target))).sent
            <= target
        )


def test_where_the_last_turns_are_nearly_all_they_are_cut_between_their_steps():
    raws = [system("s"), user("Hello"), assistant("Hello"), user("Two"), user("Three")]
    for number in range(40):
        raws += tool_call_and_result(
            "get_order", {"id": number}, {"id": f"ORD-{number}77", "note": _WORDS}
        )
    once = CompactionPolicy(force=True, once=True)
    state = state_at_end(walk(raws, once))

    assert state.parts[0].segment.end == len(raws) - 6
    assert 4 in state.parts[0].kept
    assert (
        state_at_end(
            walk(raws, CompactionPolicy(force=True, once=True, target=state.sent // 2))
        ).sent
        < state.sent
    )


def test_where_a_cache_steps_coarsely_what_is_trimmed_first_makes_up_for_a_step():
    page = "\n".join(f"{n}: the same line" for n in range(90))
    raws = conversation(90)
    for number in range(12):
        raws[-1:-1] = [
            *tool_call_and_result("read", {"n": number}, page, f"r{number}"),
            assistant("So."),
        ]
        raws[-1:-1] = [
            user("And?"),
            *tool_call_and_result("list", {}, {"id": 1, "note": "x" * 200}, f"l{number}"),
        ]
        raws[-1:-1] = [assistant("So."), user("Now?")]
    trim = CompactionPolicy(
        mode=CompactionMode.TRIM, prices=RelativePrices(read=0.1, least=1_024, block=2_048)
    )
    fine = CompactionPolicy(
        mode=CompactionMode.TRIM, prices=RelativePrices(read=0.1, least=1_024, block=128)
    )

    first, every = (
        list(state_at_end(walk(raws, policy)).suffix.replaced) for policy in (trim, fine)
    )

    assert set() < set(first) < set(every)
    assert first == [index for index in every if index >= first[0]]
    whole = [index for index in every if index < first[0]]
    less = state_at_end(walk(raws, fine)).suffix.replaced
    weights = ParsedMessageCache().messages(raws, estimate_tokens)
    saved = [weights[index].tokens - less[index].tokens for index in (*whole, first[0])]
    assert sum(saved[:-1]) < 2_048 <= sum(saved)


@pytest.mark.parametrize(("lines", "end"), [(575, 44), (610, 5)])
def test_turn_is_cut_in_its_middle_only_where_those_before_are_under_a_quarter(lines, end):
    raws = [system("You help."), user("Read it.")]
    raws += tool_call_and_result(
        "read", {"path": "a"}, "\n".join(f"{n}: line {n * n}" for n in range(lines))
    )
    raws += [assistant("Yes."), user("Go.")]
    for step in range(20):
        page = "\n".join(f"{n}: text {n * step}" for n in range(100))
        raws += tool_call_and_result("read", {"path": f"b{step}"}, page)
    prices = RelativePrices(read=0.1, write=1.25)
    policy = CompactionPolicy(force=True, once=True, least=1, keep_turns=1, prices=prices)

    (part,) = state_at_end(walk(raws, policy)).parts

    assert part.segment.end == end


def test_a_segment_is_estimated_at_15_percent_until_one_is_written():
    assert walk(conversation(5)).initial_state().share == 0.15


@pytest.mark.parametrize(("target", "kept"), [(1606, 2), (1607, 3)])
def test_last_turns_take_three_tenths_of_a_target_at_most(target: int, kept: int):
    way = walk(conversation(8), CompactionPolicy(keep_turns=3, target=target, least=300))
    state = state_at_end(walk(conversation(8), CompactionPolicy(least=10**6)))

    assert way._cut_index(state, 33) == 37 - 4 * kept
