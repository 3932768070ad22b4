"""True if a body that was planned still says what its caller said; for tests of planning."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

#: Top-level fields that planning may add; what the caller set there stays.
OWNED = frozenset(
    {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "cache_salt"}
)
_MARKS = ("cache_control", "prompt_cache_breakpoint")
_AUTHORITY = ("system", "developer")
_TAG = re.compile(r"</?tg:[^<>]*>")
_Json = dict[str, Any]


def assert_nothing_lost(before: bytes, after: bytes, *, owned: frozenset[str] = OWNED) -> None:
    """Pass a planned body that lost nothing of the caller's: words, tools, marks, order, fields.

    Declared tags are no words. What varies per call may follow the conversation as messages of
    its own; a message that holds tags may have given up words to them.

    Args:
        before: As the caller sent it.
        after: As it was planned.
        owned: Fields that planning may add.
    """
    was, now = (_in_chat(msgspec.json.decode(body)) for body in (before, after))
    _fields_are_equal(before, after, owned)
    _words_are_present(was, now)
    assert sorted(map(_plain, now.get("tools") or ())) == sorted(
        map(_plain, was.get("tools") or ())
    ), "a tool was lost, added or changed"
    _dialogue_goes_on(_dialogue(was["messages"]), _dialogue(now["messages"]))
    assert not Counter(_marks(was)) - Counter(_marks(now)), "a mark of the caller's was lost"


def _fields_are_equal(before: bytes, after: bytes, owned: frozenset[str]) -> None:
    fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    was, now = (
        {name: bytes(raw) for name, raw in fields(body).items()} for body in (before, after)
    )
    for name in was.keys() | now.keys():
        if name in ("messages", "input", "instructions", "tools") or (
            name in owned and was.get(name, b"null") == b"null"
        ):
            continue
        assert was.get(name) == now.get(name), f"{name} was changed"


def _in_chat(body: _Json) -> _Json:
    """A Responses body with its instructions and items as messages; another as it is."""
    if "messages" in body or "input" not in body:
        return body
    value = body["input"]
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    messages = [{"role": "developer", "content": body.get("instructions")}]
    return {
        **body,
        "messages": [*(messages if body.get("instructions") else ()), *map(_said, items)],
    }


def _said(item: _Json) -> _Json:
    """An item as a message."""
    fields = {name: value for name, value in item.items() if name != "output"}
    content = item.get("content", item.get("output"))
    if isinstance(content, list):
        content = [
            {**part, "type": "text"} if part.get("type") == "input_text" else part
            for part in content
        ]
    return {**fields, "content": content}


def _words_are_present(was: _Json, now: _Json) -> None:
    text = " ".join(_texts(now))
    there = Counter(text.split())
    for word, count in Counter(_TAG.sub(" ", " ".join(_texts(was))).split()).items():
        is_present = there[word] >= count or text.count(word) >= count
        assert is_present, f"{word!r} was said {count} times, not {there[word]}"


def _dialogue_goes_on(was: list[_Json], now: list[_Json]) -> None:
    assert len(now) >= len(was), "a message was lost"
    for before, after in zip(was, now, strict=False):
        assert before.get("role") == after.get("role"), "the order of the dialogue was changed"
        tagged = before.get("role") in ("user", *_AUTHORITY) and _TAG.search(str(before))
        assert tagged or _plain(before) == _plain(after), "a message was changed"


def _dialogue(messages: list[_Json]) -> list[_Json]:
    """The messages from the first that is neither system nor developer on."""
    for index, message in enumerate(messages):
        if message.get("role") not in _AUTHORITY:
            return messages[index:]
    return []


def _texts(body: _Json) -> Iterator[str]:
    for message in body["messages"]:
        content = message.get("content") or ""
        for part in [content] if isinstance(content, str) else content:
            if isinstance(part, str | dict):
                yield part if isinstance(part, str) else str(part.get("text") or "")


def _marks(value: object) -> Iterator[bytes]:
    """Every mark that is not null, wherever it stands as JSON."""
    if isinstance(value, list):
        for one in value:
            yield from _marks(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name in _MARKS and one is not None:
                yield msgspec.json.encode([name, one])
            else:
                yield from _marks(one)


def _plain(value: object) -> bytes:
    """A message or a tool without marks, its text as one part, keys sorted."""
    return msgspec.json.encode(_without_marks(value), order="sorted")


def _without_marks(value: object) -> object:
    if isinstance(value, list):
        return [_without_marks(one) for one in value]
    if not isinstance(value, dict):
        return value
    bare = {name: _without_marks(one) for name, one in value.items() if name not in _MARKS}
    if isinstance(bare.get("content"), str):
        bare["content"] = [{"type": "text", "text": bare["content"]}]
    return bare
