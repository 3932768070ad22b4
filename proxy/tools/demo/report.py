"""A report writer, built the way people build it: one prompt a section, the changing part first.

Each section is a call of its own with no history. The prompt begins with a header that names the
report, the reader and the time it was begun; the house style, which is most of it, comes after.
Sections of one report share the header, so they are the only ones that can share a prefix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from proxy.tools.demo.conversation import Message, seeded_random, table, text

_FINDING = {
    "type": "object",
    "properties": {
        "statement": {"type": "string", "description": "One sentence."},
        "figures": {"type": "array", "items": {"type": "string"}},
        "certainty": {"type": "string", "enum": ["certain", "likely", "open"]},
    },
    "required": ["statement", "figures", "certainty"],
    "additionalProperties": False,
}
_ACTION = {
    "type": "object",
    "properties": {
        "who": {"type": "string"},
        "what": {"type": "string"},
        "until": {"type": "string", "description": "A date such as 9 November 2026."},
    },
    "required": ["who", "what", "until"],
    "additionalProperties": False,
}
_SECTION = {
    "type": "object",
    "properties": {
        "headline": {"type": "string", "description": "At most 18 words."},
        "summary": {"type": "string", "description": "Three sentences."},
        "findings": {"type": "array", "items": _FINDING},
        "actions": {"type": "array", "items": _ACTION},
        "open_questions": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["headline", "summary", "findings", "actions", "open_questions"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportScript:
    """One report, written section by section.

    Attributes:
        title: Subject of the report.
        reader: For whom.
        sections: Name and raw notes of each.
        style: The rules, the same for every report.
        number: The report's own, as the desk counts them.
    """

    title: str
    reader: str
    sections: tuple[tuple[str, str], ...]
    style: str
    number: int
    model: str
    team: str = "acme-support"
    feature: str = "report-writer"

    @property
    def length(self) -> int:
        """One call for each section."""
        return len(self.sections)

    def body(self, turn: int, at: datetime, answers: Sequence[Message | None]) -> dict[str, Any]:
        """One section's prompt; earlier answers are no part of it."""
        name, notes = self.sections[turn]
        header = (
            f"Report {self.number}: {self.title}\n"
            f"Date: {at:%d %B %Y}\n"
            f"Reader: {self.reader}\n"
            f"Author: operations desk"
        )
        return {
            "messages": [
                {"role": "system", "content": f"{header}\n\n{self.style}"},
                {
                    "role": "user",
                    "content": f'Write the section "{name}" from these notes.\n\n{notes}',
                },
            ],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "section", "strict": True, "schema": _SECTION},
            },
            "max_completion_tokens": 900,
        }


def reports(seed: str, models: Sequence[str]) -> list[ReportScript]:
    """Every report once, in an order the seed decides, on the models in turn."""
    style = text("style.md")
    roll = seeded_random(seed, "reports")
    order = table("reports.toml", "job")
    roll.shuffle(order)
    return [
        ReportScript(
            title=entry["title"],
            reader=entry["reader"],
            sections=tuple(map(_section, entry["sections"])),
            style=style,
            number=roll.randrange(1000, 10000),
            model=models[number % len(models)],
        )
        for number, entry in enumerate(order)
    ]


def _section(entry: Mapping[str, str]) -> tuple[str, str]:
    return entry["name"], entry["notes"].strip()
