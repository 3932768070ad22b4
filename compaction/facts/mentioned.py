"""What was spoken of: what in a result somebody cared for."""

from compaction.facts.call_records import Say
from compaction.facts.region_contents import Part
from compaction.reading.message import Voice
from compaction.results.pruning import Detail, Mentioned, spoken_of
from compaction.results.result_lines import pruned


def mentioned(part: Part) -> Mentioned:
    """The words of users, of the assistant and of the arguments of calls."""
    texts = [message.text for _, message in part.spoken(Voice.USER)]
    texts += [message.text for _, message in part.spoken(Voice.ASSISTANT)]
    texts += [each.called.arguments for each in part.exchanges]
    return spoken_of(texts)


def say_pruned(part: Part, detail: Detail) -> Say:
    """Says results by what tells in them or was spoken of, in so much detail."""
    said = mentioned(part)
    return lambda result: pruned(result, said, detail)
