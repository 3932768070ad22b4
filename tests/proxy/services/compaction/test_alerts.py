from compaction.policy import CompactionMode
from proxy.services.compaction.alerts import higher_cost_alert, stepped_back_alert
from proxy.services.compaction.live_quality import CompactionSums

NOW = 1_790_000_000.0
PLACE = ("team_1", "the chat")


def test_a_step_back_names_what_was_found_and_how_to_mend_it():
    told = stepped_back_alert(PLACE, CompactionMode.FACTS, CompactionMode.TRIM, "9 of 100", NOW)

    assert told.title == (
        "Compaction of feature the chat of team team_1 was stepped back from facts to trim"
    )
    assert ("found", "9 of 100") in told.facts
    assert "`thriftgate compaction resume team_1 'the chat'`" in told.fix


def test_smaller_but_dearer_is_told_once_a_day():
    sums = CompactionSums(folded=40, tokens=9_000, nanos=-2_000_000_000)
    first, later = higher_cost_alert(PLACE, sums, NOW), higher_cost_alert(PLACE, sums, NOW + 60)

    assert first.id == later.id
    assert first.id != higher_cost_alert(PLACE, sums, NOW + 86_400).id
    assert ("saved", "-$2") in first.facts
    assert higher_cost_alert(("t", ""), sums, NOW).subject == "feature (none) of team t"
