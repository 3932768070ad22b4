"""Benchmarks that tell whether a profile's techniques paid, for ``engine plan`` and ``advise``."""

from collections.abc import Iterator

from proxy.engines.profiles import EngineProfile
from proxy.engines.techniques import used_techniques


def technique_documents(profile: EngineProfile) -> list[dict[str, str]]:
    """Each technique in effect: its name, the command that measures it, and the figures."""
    return [
        {
            "technique": each.name,
            "command": each.benchmark(profile) or f"thriftgate engine advise {profile.name}",
            "look_at": each.look_at,
        }
        for each in used_techniques(profile)
    ]


def technique_lines(profile: EngineProfile) -> Iterator[str]:
    """The same as lines of text; none where no technique is in effect."""
    yield from _lines(technique_documents(profile))


def benchmark_documents(profile: EngineProfile) -> list[dict[str, str]]:
    """Those of them that the advisor has no counters of its own for."""
    measured = {each.name for each in used_techniques(profile) if each.counters}
    return [each for each in technique_documents(profile) if each["technique"] not in measured]


def benchmark_lines(profile: EngineProfile) -> Iterator[str]:
    """The same as lines of text; none where there is nothing to run."""
    yield from _lines(benchmark_documents(profile))


def _lines(found: list[dict[str, str]]) -> Iterator[str]:
    if not found:
        return
    yield ""
    yield "Whether each technique pays: run its command before and after the change."
    for each in found:
        yield f"{each['technique']}: {each['look_at']}"
        yield f"    {each['command']}"
