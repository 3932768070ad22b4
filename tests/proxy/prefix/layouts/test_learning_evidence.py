"""Evidence that learning asks for, on both sides of each bound."""

from time import thread_time

import pytest

from proxy.prefix.layouts.learning import FeatureLearner
from proxy.prefix.prompts.prompt import PromptSlot
from tests.proxy.prefix.layouts.test_learning import RULES, TARGET, found, learner, template
from tests.proxy.prefix.sent_calls import fingerprint


@pytest.mark.parametrize(
    ("calls", "slot"), [(10, PromptSlot.VARIABLE), (11, PromptSlot.SEMI_STABLE)]
)
def test_text_that_changes_in_more_than_a_tenth_of_further_calls_varies_per_call(
    calls: int, slot: PromptSlot
):
    """It changes once, in nine further calls or in ten."""
    moves = found(lambda number, call: template(f"State: {number} {call >= 5}"), calls=calls)

    assert moves == [(slot, "line 2")]


@pytest.mark.parametrize(("values", "is_moved"), [(5, False), (6, True)])
def test_text_moves_where_three_in_ten_conversations_have_their_own(values: int, is_moved: bool):  # noqa: FBT001
    moves = found(lambda number, _: template(f"User: {number % values}"), conversations=20)

    assert (moves is not None) is is_moved


@pytest.mark.parametrize(("size", "is_believed"), [(700, True), (800, True), (900, False)])
def test_up_to_eight_bytes_of_a_token_are_believed(size: int, is_believed: bool):  # noqa: FBT001
    def savings(size: int) -> int:
        feature: FeatureLearner = learner(lambda number, call: template(f"Time: {number} {call}"))
        feature.record_tokens(size, 100)
        layout = feature.proposal(TARGET)
        assert layout is not None
        return layout.saved_nanos

    assert (savings(size) < savings(size - 100)) is is_believed


@pytest.mark.parametrize(("behind", "is_proposed"), [(280, False), (300, True)])
def test_layout_must_make_fifty_more_tokens_readable(behind: int, is_proposed: bool):  # noqa: FBT001
    """A reference and a label are 20 tokens: 45, nine tenths of fifty, have to be left over."""
    rules = "\n".join(RULES)[:6_000]
    moves = found(
        lambda number, _: [
            f"{rules}\nUser: {number}\n{'Reply kindly, at length '.ljust(behind, '-')}"
        ],
        conversations=12,
        calls=1,
    )

    assert (moves is not None) is is_proposed


def test_label_names_two_topics_of_a_text():
    lines = ("Customer: {}", "Session: {}", "Place: {}")
    layout = learner(lambda number, _: template(*(line.format(number) for line in lines))).proposal(
        TARGET
    )

    assert layout is not None
    assert [move.label for move in layout.moves] == ["Customer and session"]


def test_a_later_proposal_sees_the_instructions_sampled_since_and_the_conversations_dropped():
    grown = learner(lambda number, call: template(), conversations=4)
    assert grown.proposal(TARGET) is None
    for number in range(4, 40):
        identity = fingerprint(str(number).encode())
        grown.samples.add_call(template(f"User: {number}"), identity, 0.0, first=True)
    layout = grown.proposal(TARGET)
    for number in range(40):
        identity = fingerprint(f"next hour {number}".encode())
        grown.samples.add_call(template(), identity, 7_200.0, first=True)

    assert layout is not None
    assert [move.slot for move in layout.moves] == [PromptSlot.SEMI_STABLE]
    assert grown.proposal(TARGET) is None


def test_a_proposal_by_instructions_known_already_takes_a_fraction_of_the_first_ones_time():
    one = learner(lambda number, call: template(f"Time: {number} {call}"), conversations=30)
    times = []
    for _ in range(9):
        start = thread_time()
        layout = one.proposal(TARGET)
        times.append(thread_time() - start)

    assert layout is not None
    assert sorted(times[1:])[4] < times[0] / 2


def test_templates_count_the_bytes_of_their_gaps_and_of_values_in_them():
    learned = learner(lambda number, call: template(f"Time: {number} {call}"))
    before = learned.size_bytes
    learned.proposal(TARGET)

    assert learned.size_bytes - before == 900 + 8 * 250
