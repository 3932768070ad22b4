"""Usage objects of ``generateContent``, in disjoint buckets.

The prompt's count includes what a cache read and excludes what tools of Google's brought in; the
candidates' count excludes thoughts. Source: Google, Gemini API, UsageMetadata (2026-11).
"""

from collections.abc import Mapping
from typing import Any

from proxy.providers.answers.usage import token_count
from slo.usage import Usage


def gemini_usage(reported: Mapping[str, Any]) -> Usage | None:
    """The buckets; None if the object holds no counts."""
    prompt = token_count(reported, "promptTokenCount")
    candidates = token_count(reported, "candidatesTokenCount")
    thoughts = token_count(reported, "thoughtsTokenCount") or 0
    if prompt is None and candidates is None and not thoughts:
        return None
    read = (prompt or 0) + (token_count(reported, "toolUsePromptTokenCount") or 0)
    cached = min(token_count(reported, "cachedContentTokenCount") or 0, read)
    return Usage(input=read - cached, cache_read=cached, output=candidates or 0, reasoning=thoughts)
