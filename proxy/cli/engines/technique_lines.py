"""Benchmarks that tell whether a profile's techniques paid, for ``engine plan`` and ``advise``."""

from collections.abc import Iterator

from proxy.engines.profiles import EngineProfile
from proxy.engines.techniques import used_techniques


def technique_documents(
    profile: EngineProfile, *, only_benchmarks: bool = False
) -> list[dict[str, str]]:
    """Each technique in effect: its name, the command that measures it, and the figures.

    Args:
        only_benchmarks: True leaves out those that the advisor measures.
    """
    return [
        {
            "technique": technique.name,
            "command": technique.command(profile),
            "look_at": technique.judged_by,
        }
        for technique in used_techniques(profile)
        if technique.bench or not only_benchmarks
    ]


def technique_lines(profile: EngineProfile, *, only_benchmarks: bool = False) -> Iterator[str]:
    """The same as lines of text; none where no technique is in effect."""
    documents = technique_documents(profile, only_benchmarks=only_benchmarks)
    if not documents:
        return
    yield ""
    yield "Whether each technique pays: run its command before and after the change."
    for document in documents:
        yield f"{document['technique']}: {document['look_at']}"
        yield f"    {document['command']}"
