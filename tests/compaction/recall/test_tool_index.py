import orjson

from compaction.reading.turns import MessageUnit
from compaction.recall.tool_index import TOOL, TOOL_NAME, index_text, index_tokens


def test_only_the_first_segment_explains_the_tool():
    first, later = [MessageUnit(1, 3, 1), MessageUnit(3, 9, 14)], [MessageUnit(9, 11, 15)]

    assert TOOL_NAME in index_text(1, first)
    assert "Turns 1-14" in index_text(1, first)
    assert "Turns 15 " in index_text(2, later)
    assert len(index_text(2, later)) < len(index_text(1, later))


def test_the_first_index_brings_the_tokens_of_the_tool():
    assert index_tokens("", 1, len) == 0
    assert index_tokens("x" * 40, 2, len) == 40
    assert index_tokens("x" * 40, 1, len) == 40 + len(TOOL)


def test_the_tool_takes_a_turn_or_a_query():
    function = orjson.loads(TOOL)["function"]

    assert function["name"] == TOOL_NAME
    assert set(function["parameters"]["properties"]) == {"id", "query"}
