import pytest

from compaction.facts.done import is_done


@pytest.mark.parametrize("result", ["Successfully paid", "It has been sent.", "They were removed"])
def test_a_result_tells_of_a_change_where_it_begins(result):
    assert is_done(result)


@pytest.mark.parametrize("result", ["", "It was late", "x" * 400 + " successfully paid"])
def test_other_results_do_not(result):
    assert not is_done(result)
