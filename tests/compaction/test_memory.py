import tracemalloc

import pytest

from compaction.cost_model import CompactionDecision, CompactionReason, CostInputs
from compaction.memory import CompactionMemory, CompactionState
from compaction.verbatim_suffix import ReplacedMessage, VerbatimSuffix


def state(size: int = 0) -> CompactionState:
    return CompactionState(
        suffix=VerbatimSuffix(
            start=0, end=1, replaced={0: ReplacedMessage(b"x" * size, 1)} if size else {}
        )
    )


def test_a_remembered_state_is_found():
    memory = CompactionMemory()
    memory.keep(b"a", state())

    assert memory.find(b"a") == state()
    assert memory.find(b"b") is None


def test_the_least_recently_used_state_is_forgotten_first():
    memory = CompactionMemory(conversations=2)
    for name in (b"a", b"b"):
        memory.keep(name, state())
    memory.find(b"a")
    memory.keep(b"c", state())

    assert memory.find(b"a") is not None
    assert memory.find(b"b") is None


def test_memory_is_bounded_by_its_bytes():
    memory = CompactionMemory(max_bytes=4_000)
    memory.keep(b"a", state(2_000))
    memory.keep(b"a", state(1_000))
    memory.keep(b"b", state(1_000))
    assert memory.find(b"a") is not None

    memory.keep(b"c", state(2_000))

    assert memory.find(b"a") is None
    assert memory.find(b"c") is not None


def test_memory_of_many_long_conversations_takes_less_than_60_mb():
    memory = CompactionMemory()
    find = memory.text_analyses.analyzer_for(b"team")
    tracemalloc.start()
    try:
        for number in range(500):
            text = f"{number} {'word ' * 40_000}"
            memory.parsed_messages.messages([b'{"role":"user","content":"%b"}' % text.encode()])
            find(str.upper, text)
            memory.keep(b"%d" % number, state(200_000))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert used < 60e6


def test_4096_conversations_are_remembered():
    memory = CompactionMemory()
    for number in range(4_096):
        memory.keep(b"%d" % number, state())
    memory.find(b"0")
    memory.keep(b"4096", state())

    assert memory.find(b"0") is not None
    assert memory.find(b"1") is None
    assert memory.find(b"2") is not None


def test_states_of_16_mib_are_remembered_each_with_the_room_of_its_entry():
    fitting, larger = CompactionMemory(), CompactionMemory()
    half = 8 * 1_048_576 - 512 - 160
    fitting.keep(b"a", state(half))
    fitting.keep(b"b", state(half))
    larger.keep(b"a", state(half))
    larger.keep(b"b", state(half + 1))

    assert fitting.find(b"a") is not None
    assert larger.find(b"a") is None


def test_first_segment_is_likely_a_small_share_of_its_region():
    assert state().likely_segment(1_000) == 150


@pytest.mark.parametrize(("region", "tokens"), [(1_000, 400), (1_900, 760), (2_000, 300)])
def test_next_segment_is_likely_the_share_of_the_last_until_the_region_is_twice_as_long(
    region, tokens
):
    assert state().with_segment(1_000, 400).likely_segment(region) == tokens


@pytest.mark.parametrize(
    ("reason", "failed"),
    [(CompactionReason.NO_PROGRESS, 1_000), (CompactionReason.NOTHING_TO_COMPACT, 0)],
)
def test_region_of_a_vain_try_is_remembered_where_nothing_was_won(reason, failed):
    decision = CompactionDecision(is_due=False, reason=reason, break_even=None)
    inputs = CostInputs(
        calls=9,
        calls_since=9,
        fixed=100,
        earlier_segments=0,
        region=1_000,
        segment=400,
        tail=50,
        growth=10.0,
    )

    after = state().after_vain_try(inputs, decision)

    assert (after.decision, after.failed) == (decision, failed)
    assert (after.share, after.measured) == (0.4, 1_000)
