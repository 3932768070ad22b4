from compaction.facts.segment import Rung


def test_the_rungs_go_down_in_order():
    assert list(Rung) == [Rung.FACTS, Rung.PRUNED, Rung.VALUES, Rung.BARE] == sorted(Rung)
