"""Benchmarks that tell whether a profile's techniques paid, for ``engine plan`` and ``advise``."""

from collections.abc import Iterator

from proxy.engines.profiles import EngineProfile
from proxy.engines.techniques import used_techniques


def technique_documents(profile: EngineProfile) -> list[dict[str, str]]:
    """Each technique in effect: its name, the command that measures it, and the figures."""
    return [
        {
            "technique": technique.name,
            "command": technique.benchmark(profile) or f"thriftgate engine advise {profile.name}",
            "look_at": technique.look_at,
        }
        for technique in used_techniques(profile)
    ]


def technique_lines(profile: EngineProfile) -> Iterator[str]:
    """The same as lines of text; none where no technique is in effect."""
    yield from _lines(technique_documents(profile))


def benchmark_documents(profile: EngineProfile) -> list[dict[str, str]]:
    """Those of them that the advisor has no counters of its own for."""
    measured = {technique.name for technique in used_techniques(profile) if technique.counters}
    return [
        document
        for document in technique_documents(profile)
        if document["technique"] not in measured
    ]


def benchmark_lines(profile: EngineProfile) -> Iterator[str]:
    """The same as lines of text; none where there is nothing to run."""
    yield from _lines(benchmark_documents(profile))


def _lines(documents: list[dict[str, str]]) -> Iterator[str]:
    if not documents:
        return
    yield ""
    yield "Whether each technique pays: run its command before and after the change."
    for document in documents:
        yield f"{document['technique']}: {document['look_at']}"
        yield f"    {document['command']}"
