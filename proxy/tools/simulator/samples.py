"""Made-up content: English text that is marked as simulated, and JSON that satisfies a schema.

The common core of JSON Schema is read: types, properties, items, enum, const, unions, references,
lengths, bounds and the formats that providers accept. Patterns are not.

Source: OpenAI, structured outputs, supported schemas (2026-11).
"""

import re
from collections.abc import Mapping, Sequence
from math import ceil, floor
from random import Random
from typing import Any

MARK = "[simulated]"

_OPENERS = (
    "In short,",
    "As far as the notes go,",
    "Put plainly,",
    "On the whole,",
    "For the time being,",
    "Looking at it twice,",
)
_SUBJECTS = (
    "the first step",
    "this part of the record",
    "a careful reading",
    "the simplest change",
    "what was asked",
    "the earlier answer",
    "one small check",
    "the usual way",
)
_VERBS = (
    "points to",
    "depends on",
    "leaves room for",
    "agrees with",
    "settles",
    "follows from",
    "is explained by",
    "comes before",
)
_OBJECTS = (
    "the second paragraph",
    "a shorter list",
    "the order of events",
    "what the customer expects",
    "the figures given above",
    "a quiet afternoon of work",
    "the file that changed last",
    "two open questions",
)
_ENDINGS = (
    "",
    ", and little else",
    ", so nothing needs to be undone",
    ", which is easy to verify",
    " once the rest is in place",
    ", at least for now",
)
_TOPIC = re.compile(r"[A-Za-z][A-Za-z-]{5,}")


def seeded_random(seed: int) -> Random:
    """Dice that fall the same way for the same seed."""
    return Random(seed)  # noqa: S311 - a simulation wants the same fall every time


def prose(thrown: Random, about: str, words: int) -> str:
    """About that many words, marked, that mention what they are about; at least one sentence."""
    sentences = [MARK, _opening(thrown, about)]
    while sum(len(sentence.split()) for sentence in sentences) < words:
        sentences.append(_sentence(thrown))
    return " ".join(sentences)


def refusal() -> str:
    """The text of a simulated model's refusal."""
    return f"{MARK} I will not help with that."


def pieces(text: str, size: int = 3) -> list[str]:
    """The text in runs of a few words that join to it again; none for ""."""
    words: Sequence[str] = re.findall(r"\s*\S+\s*$|\s*\S+", text)
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def letters(text: str, seed: int) -> list[str]:
    """The text in runs of 1 to 7 letters that join to it again; none for ""."""
    thrown, runs, start = seeded_random(seed), list[str](), 0
    while start < len(text):
        end = start + thrown.randint(1, 7)
        runs.append(text[start:end])
        start = end
    return runs


def _opening(thrown: Random, about: str) -> str:
    topics = sorted(set(_TOPIC.findall(about[:4000])))
    if not topics:
        return _sentence(thrown)
    return f"About {thrown.choice(topics).lower()}: {_sentence(thrown)}"


def _sentence(thrown: Random) -> str:
    opener = thrown.choice(_OPENERS)
    subject, verb, thing = thrown.choice(_SUBJECTS), thrown.choice(_VERBS), thrown.choice(_OBJECTS)
    return f"{opener} {subject} {verb} {thing}{thrown.choice(_ENDINGS)}."


_FORMATS = {
    "date-time": "2026-11-21T12:00:00Z",
    "date": "2026-11-21",
    "time": "12:00:00Z",
    "duration": "P1D",
    "email": "simulated@example.com",
    "hostname": "simulated.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/simulated",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST = 12  # a schema may refer to itself
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven")

Schema = Mapping[str, Any]


def sample(schema: Schema, dice: Random) -> object:
    """A value that satisfies the schema; an object that says it is simulated for an empty one."""
    if not schema:
        return {"simulated": True, "answer": _string({}, dice)}
    return _Sampler(schema, dice).value(schema, 0)


class _Sampler:
    def __init__(self, root: Schema, dice: Random) -> None:
        self._root = root
        self._dice = dice

    def value(self, schema: Schema, depth: int) -> object:
        if "$ref" in schema:
            return self.value(self._resolve_reference(schema["$ref"]), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._dice.choice(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(_choice(schema[union], depth), depth + 1)
        return self._sample_of_type(schema, depth)

    def _sample_of_type(self, schema: Schema, depth: int) -> object:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = "null" if depth > _DEEPEST and "null" in kind else kind[0]
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return _string(schema, self._dice)
            case _:
                return self._scalar(kind, schema)

    def _object(self, schema: Schema, depth: int) -> dict[str, object]:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        required = schema.get("required", ())
        included = [name for name in properties if depth <= _DEEPEST or name in required]
        return {name: self.value(properties[name], depth + 1) for name in included}

    def _array(self, schema: Schema, depth: int) -> list[object]:
        least = schema.get("minItems", 0)
        usual = max(least, min(2, schema.get("maxItems", 2)))
        count = least if depth > _DEEPEST else usual
        return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]

    def _scalar(self, kind: str, schema: Schema) -> float | bool | None:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._dice.random() < 0.5
        low = ceil(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
        high = floor(schema.get("maximum", schema.get("exclusiveMaximum", low + 11) - 1))
        step: float = schema.get("multipleOf", 1)
        first = ceil(low / step)
        return self._dice.randint(first, max(first, floor(high / step))) * step

    def _resolve_reference(self, reference: str) -> Schema:
        node: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            node = node[name] if name else node
        return dict(node)


def _choice(options: list[Schema], depth: int) -> Schema:
    """The first option, or the one that ends a schema that refers to itself."""
    flat = [option for option in options if "$ref" not in option]
    return flat[-1] if depth > _DEEPEST and flat else options[0]


def _string(schema: Schema, dice: Random) -> str:
    form = schema.get("format")
    if form in _FORMATS:
        return _FORMATS[form]
    text = f"{MARK} {dice.choice(_WORDS)} {dice.choice(_WORDS)}"
    least: int = schema.get("minLength", 0)
    text += "." * (least - len(text))
    limit: int = schema.get("maxLength", len(text))
    return text[:limit]
