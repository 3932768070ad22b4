"""Layouts learned from the instructions of features."""

from fractions import Fraction
from itertools import permutations

import msgspec
import pytest

from proxy.caches.regime import prompt_cost
from proxy.prefix.layouts.layout import Layout, LayoutMove
from proxy.prefix.lessons import (
    LayoutLearner,
    _merge_moves,
    is_due,
    is_worth_replacing,
    layout_effect,
)
from proxy.prefix.planned import Planned
from proxy.prefix.prompts.prompt import PromptSlot
from slo.usage import Usage
from tests.fakes.handbook import handbook
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
)

WAY = TARGETS["openai-interval"]
FIRST, OTHER = [tool("a")], [tool("b"), tool("c")]


class Feature:
    """A feature whose first line says the time, and its second perhaps for whom."""

    def __init__(self, lessons: LayoutLearner | None = None, *, rates: bool = True) -> None:
        to = WAY if rates else msgspec.structs.replace(WAY, rates=None)
        self.lessons = LayoutLearner() if lessons is None else lessons
        self._process = PlanningProcess(to)
        self._calls = 0

    def call(self, above: str, tools: object = None, **fields: object) -> Planned:
        """A call that was answered and learned from."""
        self._calls += 1
        raw = body(
            *conversation_messages(0, f"{above}\n{RULES}", f"I am {self._calls}."),
            tools=tools or [],
        )
        return self.plan_body(raw, **fields)

    def plan_body(self, raw: bytes, **fields: object) -> Planned:
        """The same of any body."""
        planned = self._process.plan(planning_request(raw, **fields))
        self.lessons.observe(planned)
        return planned

    def calls(self, count: int = 24, tools: object = None, words: str = "Time: {}") -> Planned:
        """Several, each in a conversation of its own."""
        for number in range(count - 1):
            self.call(words.format(number), tools)
        return self.call(words.format(count), tools)


def labels(layout: Layout | None) -> list[str]:
    return [move.label for move in layout.moves] if layout is not None else []


def test_a_line_that_varies_is_proposed_to_move():
    feature = Feature()
    proposal = feature.lessons.proposal(feature.calls())

    assert labels(proposal) == ["Current time"]


@pytest.mark.parametrize("header", ["", "0=variable"])
def test_text_whose_slot_its_caller_declares_is_not_proposed_to_move(header):
    feature = Feature()
    words = "Time: {}" if header else "<tg:variable>Time: {}</tg:variable>"
    for number in range(23):
        feature.call(words.format(number), slots=header)
    planned = feature.call(words.format(23), slots=header)

    assert feature.lessons.proposal(planned) is None


def test_other_text_that_varies_beside_declared_text_is_proposed_to_move_all_the_same():
    feature = Feature()
    for number in range(24):
        rules = {"role": "system", "content": f"<tg:variable>Time: {number}</tg:variable>"}
        messages = conversation_messages(0, f"Desk {number}\n{RULES}", f"I am {number}.")
        planned = feature.plan_body(body(rules, *messages))

    assert labels(feature.lessons.proposal(planned)) == ["Detail"]


def test_a_feature_whose_price_is_unknown_is_planned_as_usual():
    priced, unknown = Feature(), Feature(rates=False)
    one = priced.lessons.proposal(priced.calls())
    other = unknown.lessons.proposal(unknown.calls())

    assert one is not None
    assert other is not None
    assert layout_effect(one) == layout_effect(other)
    assert one.saved_nanos == other.saved_nanos, "a thousand nano-dollars a token"


def test_few_calls_propose_no_layout():
    feature = Feature()

    assert feature.lessons.proposal(feature.calls(5)) is None


def test_an_unknown_feature_has_no_proposal():
    feature = Feature()
    planned = feature.calls()

    assert LayoutLearner().proposal(planned) is None


def test_calls_without_instructions_teach_nothing():
    lessons = LayoutLearner()
    lessons.observe(PlanningProcess(WAY).plan(planning_request(body(chat_message("user", RULES)))))

    assert len(lessons) == 0


def test_words_are_shown_where_prompts_are_kept():
    feature = Feature()
    every = [feature.call(f"Time: {number}", shows=True) for number in range(24)]
    proposal = feature.lessons.proposal(every[-1])

    assert proposal is not None
    assert "Time:" in proposal.moves[0].shows


def test_sets_of_tools_that_show_the_same_move_it_once():
    feature = Feature()
    feature.calls(tools=FIRST)
    last = feature.calls(tools=OTHER)

    assert labels(feature.lessons.proposal(last)) == ["Current time"]


def test_tools_in_another_order_are_the_same_set():
    feature = Feature()
    orders = [OTHER, OTHER[::-1]]
    every = [feature.call(f"Time: {number}", orders[number % 2]) for number in range(24)]

    assert labels(feature.lessons.proposal(every[-1])) == ["Current time"]


def test_sets_of_tools_with_rules_of_their_own_move_theirs():
    feature = Feature()
    feature.calls(tools=FIRST)
    last = feature.calls(tools=OTHER, words="You serve the branch office.\nNow: {}")

    assert labels(feature.lessons.proposal(last)) == ["Current time", "Current time 2"]


def test_which_tools_were_used_last_makes_no_other_layout():
    feature = Feature()
    other = "You serve the branch office.\nNow: {}"
    feature.calls(tools=FIRST)
    one = feature.lessons.proposal(feature.calls(tools=OTHER, words=other))
    two = feature.lessons.proposal(feature.call("Time: 99", FIRST))

    assert one is not None
    assert two is not None
    assert layout_effect(one) == layout_effect(two)


@pytest.mark.parametrize("slots", list(permutations((PromptSlot.SEMI_STABLE, PromptSlot.VARIABLE))))
def test_of_two_moves_of_one_text_the_farther_one_is_made(slots):
    moves = [LayoutMove(before=None, after=None, slot=slot, label="Detail 1") for slot in slots]

    assert [move.slot for move in _merge_moves(moves)] == [PromptSlot.VARIABLE]


def test_evidence_makes_no_other_layout():
    move = LayoutMove(before=None, after=None, slot=PromptSlot.VARIABLE, label="Detail 1")
    more = msgspec.structs.replace(
        move, calls=9, conversations=3, values=4, saving=7, shows="line 1"
    )
    other = msgspec.structs.replace(move, slot=PromptSlot.SEMI_STABLE)
    one, two, three = (
        layout_effect(Layout(moves=(moved_text,))) for moved_text in (move, more, other)
    )

    assert one == two != three


def test_features_and_sets_of_tools_that_are_long_unused_are_forgotten():
    lessons = LayoutLearner(max_bytes=120_000)
    feature = Feature(lessons)
    for name in ("f", "g", "f", "h"):
        feature.call("Time: 1", feature=name)

    assert [place.feature for place in lessons._known] == ["f", "h"]

    lessons._max_bytes = 1_000_000
    for number in range(12):
        feature.call("Time: 1", [tool(str(number))], feature="h")

    assert [len(learners) for learners in lessons._known.values()] == [1, 8]


def test_all_learners_take_32_mebibytes_and_the_latest_1024_lists_of_tools():
    lessons = LayoutLearner()
    planned = Feature(lessons).call("Time: 1")
    for number in range(1_200):
        tools = {"tools": (b"%d" % number,)}
        prompt = msgspec.structs.replace(planned.draft.prompt, **tools)
        draft = msgspec.structs.replace(planned.draft, prompt=prompt)
        lessons._learner_of(msgspec.structs.replace(planned, draft=draft))

    assert lessons._max_bytes == 33_554_432
    assert 1_000 < len(lessons._named) <= 1_024


def test_a_team_with_many_features_makes_no_other_team_forget_its_own():
    lessons = LayoutLearner(max_bytes=400_000)
    feature = Feature(lessons)
    feature.call("Time: 1", feature="mine", team="quiet")
    for number in range(30):
        feature.call("Time: 1", feature=str(number), team="busy")

    assert "mine" in {place.feature for place in lessons._known}
    assert 2 < len(lessons) < 15


def test_proposed_moves_are_expected_to_save_money():
    feature = Feature()
    proposal = feature.lessons.proposal(feature.calls())

    assert proposal is not None
    assert Fraction(proposal.moves[0].saving) > 0


def test_proposals_are_due_more_often_at_first():
    assert [calls for calls in range(1, 101) if is_due(calls)] == [
        *range(2, 13),
        *range(15, 55, 5),
        75,
        100,
    ]


@pytest.mark.parametrize(
    ("calls", "elapsed_s", "due"), [(75, 1.9, False), (75, 2.0, True), (45, 0.0, True)]
)
def test_later_proposals_are_two_seconds_apart_and_those_of_the_first_calls_are_not(
    calls, elapsed_s, due
):
    assert is_due(calls, elapsed_s) is due


@pytest.mark.parametrize(("more", "replaces"), [(99, False), (100, True)])
def test_layout_that_saves_a_tenth_of_the_cost_replaces_another_at_once(more, replaces):
    move = LayoutMove(before=None, after=None, slot=PromptSlot.VARIABLE, label="", saving=more)

    assert is_worth_replacing(Layout(moves=(move,), held_cost=1_000)) is replaces


def test_moves_of_the_layout_in_force_are_not_proposed_again():
    feature = Feature()
    last = feature.calls()
    held = feature.lessons.proposal(last)

    assert held is not None
    assert feature.lessons.proposal(last, held) is None


def test_moves_of_the_layout_in_force_are_known_by_the_text_they_take():
    """The line after the text was another when it was learned."""
    feature = Feature()
    last = feature.calls()
    proposed = feature.lessons.proposal(last)
    assert proposed is not None
    (move,) = proposed.moves
    held = Layout(moves=(msgspec.structs.replace(move, after=None, of=0, count=1),))
    first = msgspec.structs.replace(move, before=None, of=1, at=0)

    assert feature.lessons.proposal(last, held) is None
    assert feature.lessons.proposal(last, Layout(moves=(first,))) is None


def test_proposal_saves_what_the_layout_in_force_does_not_save_yet():
    feature = Feature()
    for number in range(24):
        more = handbook(24, "more rules")
        raw = body(
            *conversation_messages(0, f"Desk {number}\n{RULES}\nNow {number}\n{more}", f"{number}?")
        )
        last = feature.plan_body(raw)
    whole = feature.lessons.proposal(last)
    assert whole is not None
    held = Layout(moves=whole.moves[:1])
    beyond = feature.lessons.proposal(last, held)

    assert beyond is not None
    saved = [sum(move.saving for move in layout.moves) for layout in (whole, beyond)]
    assert 0 < saved[1] < saved[0]
    assert whole.held_cost - beyond.held_cost == pytest.approx(saved[0] - saved[1], rel=0.01)


def test_savings_are_counted_in_the_tokens_of_the_model():
    def proposed_saving(tokens_per_byte: int) -> int:
        feature = Feature()
        for number in range(24):
            last = feature.call(f"Time: {number}")
            usage = Usage(input=last.evidence.sent.size // tokens_per_byte)
            feature.lessons.observe(last, usage)
        proposal = feature.lessons.proposal(last)
        return sum(move.saving for move in proposal.moves) if proposal is not None else 0

    assert proposed_saving(2) == pytest.approx(2 * proposed_saving(4), rel=0.05)


@pytest.mark.parametrize(("read_share", "is_capped"), [(0.0, False), (1.0, True)])
def test_proposal_saves_at_most_what_calls_cost(read_share: float, is_capped: bool):  # noqa: FBT001
    """By what the calls' text tells none could be read, so that most of the cost would be saved."""
    feature, cost = Feature(), 0.0
    for number in range(24):
        last = feature.call(f"Time: {number}")
        tokens = last.evidence.sent.size // 4
        read = int(read_share * tokens)
        usage = Usage(input=tokens - read, cache_read=read)
        cost += prompt_cost(usage, WAY.regime)
        feature.lessons.observe(last, usage)
    proposal = feature.lessons.proposal(last)
    limit = 1_000 * cost / 24 * 1_000

    assert proposal is not None
    assert proposal.saved_nanos <= limit
    assert (proposal.saved_nanos > 0.99 * limit) is is_capped
    assert proposal.is_early is is_capped
