from proxy.prefix.breakpoints.account import PromptPlace
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import PLACES, StoredMarkAccount


def test_stored_places_are_those_that_marks_end():
    assert [place.name.lower() for place in PromptPlace] == list(PLACES)
    assert len(StoredMarkAccount(scope=LayoutScope("team", "chat")).places) == len(PLACES)
