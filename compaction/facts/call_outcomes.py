"""The outcome of a call that changes something: ok, an error or unknown, from its result alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compaction.facts.fact import OK
from compaction.facts.region_contents import ToolExchange
from compaction.facts.rendering import flatten_text, text_head
from compaction.language.speech_acts import tells_failure, tells_success
from compaction.reading.message import CannotCompactError
from compaction.results.json_values import Number, Value
from compaction.results.lossless_compression import parse_result

UNKNOWN: Final = "unknown"
ERROR: Final = "error"

#: Maximum characters kept of an error's message, and judged at each end of a plain result.
_MAX_ERROR_CHARS: Final = 160
_JUDGED_EDGE_CHARS: Final = 300
#: Minimum HTTP status of a failure. Source: RFC 9110, section 15 (2022).
_FAILED_STATUS: Final = 400
_LAST_STATUS: Final = 599
_VERBS: Final = (
    r"(?:added|appended|applied|approved|assigned|booked|cancell?ed|changed|charged|closed|completed"
    r"|committed|confirmed|created|deleted|delivered|done|edited|exchanged|executed|forwarded|granted|inserted|installed"
    r"|invited|issued|modified|moved|opened|ordered|paid|placed|posted|processed|published"
    r"|purchased|refunded|registered|removed|renamed|replaced|rescheduled|reserved|reset|saved"
    r"|scheduled|sent|shared|started|stopped|submitted|succeeded|successful(?:ly)?|transferred"
    r"|undone|updated|upgraded|uploaded|written|wrote)"
)
_harmless: Final = re.compile(
    r"\b(?:no|0|zero|without(?: any)?) (?:errors?|failures?|problems?|issues?)\b", re.IGNORECASE
).sub
#: Regular expression for quoted arguments of an action, which do not show its outcome.
_quoted: Final = re.compile(r"\"[^\"\n]{0,300}\"|(?<!\w)'[^'\n]{0,300}'(?!\w)|`[^`\n]{0,300}`").sub
_NOT_DONE: Final = rf"(?:not|never|n['\u2019]t)(?: (?:been|be|yet|get))?(?: yet)? {_VERBS}"
_undone: Final = re.compile(rf"\b{_NOT_DONE}\b", re.IGNORECASE).sub
_fails: Final = re.compile(
    r"\b(?:errors?|exception|fail(?:ed|s|ure)?|unable to|could ?n['o\u2019]t|can ?n['o\u2019]t"
    r"|cannot|can't|unsuccessful(?:ly)?|no such|denied|refused|rejected|declined"
    r"|not (?:found|allowed|permitted|enough|available|authori[sz]ed|possible|valid|exist)"
    r"|insufficient|invalid|forbidden|unauthori[sz]ed|exceed(?:s|ed)|expired|timed? ?out|aborted"
    rf"|{_NOT_DONE})\b"
    r"|fehler|fehlgeschlagen|nicht (?:m\u00f6glich|gefunden|gen\u00fcgend)|abgelehnt|erreur"
    r"|\u00e9chec|\u00e9chou\u00e9|refus\u00e9|insuffisant|fallid[oa]|rechazad[oa]|no se pudo"
    r"|insuficiente|\u043e\u0448\u0438\u0431\u043a\u0430|\u043d\u0435 \u0443\u0434\u0430\u043b"
    r"|\u041e\u0448\u0438\u0431\u043a\u0430|\u9519\u8bef|\u932f\u8aa4|\u5931\u8d25|\u5931\u6557"
    r"|\u4e0d\u8db3|\u65e0\u6cd5|\u7121\u6cd5|\u65e0\u6548|\u62d2\u7edd|\u62d2\u7d55"
    r"|\u30a8\u30e9\u30fc|\u3067\u304d\u307e\u305b\u3093|\u062e\u0637\u0623|\u0641\u0634\u0644",
    re.IGNORECASE,
).search
_waits: Final = re.compile(
    r"\b(?:pending|queued|processing|in[ _-]?progress|will be|to be|waiting|awaiting|submitted for"
    r"|not yet)\b|\u5904\u7406\u4e2d|\u51e6\u7406\u4e2d|\u7b49\u5f85",
    re.IGNORECASE,
).search
_succeeds: Final = re.compile(
    rf"\b(?:{_VERBS}|success|exit(?: code)?:? 0)\b|^\W*(?:ok(?:ay)?|true)\b|\u6210\u529f"
    r"|\u5b8c\u6210|\u5b8c\u4e86|\u3057\u307e\u3057\u305f|erfolgreich|r\u00e9ussi|\u00e9xito"
    r"|\u0443\u0441\u043f\u0435\u0448\u043d\u043e|\u062a\u0645 ",
    re.IGNORECASE,
).search
_negates: Final = re.compile(
    r"\b(?:no|not|nothing|none|neither|never|would|already|0 of|nicht|kein\w*|ne|pas|non)\b"
    r"|n['\u2019]t\b|\b\u043d\u0435 |\u4e0d|\u672a|\u6ca1|\u6c92|\u65e0|\u7121|\u307e\u305b\u3093"
    r"|\u0644\u0645 |\u0644\u0627 |\u0631\u0641\u0636",
    re.IGNORECASE,
).search
_refuses: Final = re.compile(
    r"\b(?:is_?)?(?:success(?:ful)?|succeeded|ok|done|completed|approved|accepted)[\"']?\s*[:=]"
    r"\s*[\"']?(?:false|no|0)\b"
    r"|(?:\bHTTP(?:/[\d.]{1,3})?:?|\bstatus(?: ?code)?[:=]?|^)\s*[45]\d\d\b(?![.,\d])"
    r"|\bexit(?:ed)?(?: with)?(?: code| status)?[:=]? ?[1-9]",
    re.IGNORECASE,
).search
_undoes: Final = re.compile(
    r"\b(?:cancell?ed|closed|stopped|removed|deleted|reset|reversed|voided)\b", re.IGNORECASE
).search
_undoing: Final = re.compile(
    r"cancel|close|stop|remove|delete|reset|revert|revers|void|clear|drop|end|storn", re.IGNORECASE
).search
_failed_state: Final = re.compile(
    r"(?:fail\w*|reject\w*|declin\w*|denied|refused|error\w*|aborted|expired|blocked|timed?_?out)",
    re.IGNORECASE,
).fullmatch
_title: Final = re.compile(
    r"\s*(?:error|exception|fatal|failed|failure)\s*[:\uff1a]\s*", re.IGNORECASE
).match
_ends: Final = re.compile(r"(?<=[.!?])\s|[\n\u3002\uff01\uff1f]").split

#: Members of an object that show a failure when present, when true, and when false.
_ERROR_MEMBERS: Final = frozenset(
    {
        *("error", "errors", "exception", "failure", "fault"),
        *("errorcode", "errormessage", "errormsg", "failurereason"),
    }
)
_IS_WRONG: Final = frozenset({"iserror", "haserror", "failed"})
_IS_RIGHT: Final = frozenset(
    {
        *("success", "succeeded", "successful", "ok", "issuccess", "accepted", "approved"),
        *("completed", "executed", "transferred", "processed", "done", "filled", "valid"),
    }
)
_NO: Final = frozenset({"false", "no", "0"})
#: Members that hold a call's state, its result, or a message about it.
_STATES: Final = frozenset({"status", "state", "outcome"})
_WRAPS: Final = frozenset({"result", "data", "response", "body", "output"})
_CODES: Final = frozenset({"status", "statuscode", "httpstatus", "httpcode", "code"})
_WORDS: Final = ("message", "reason", "detail", "details", "msg", "description", "error", "result")
#: Maximum members of an object that reports an outcome; a larger one is a record.
_MAX_PLAIN_MEMBERS: Final = 3
#: Maximum levels of a record that are searched.
_MAX_DEPTH: Final = 6


def action_outcome(exchange: ToolExchange) -> str:
    """The outcome of a call: ``ok``, ``error: …`` in the words of its result, or ``unknown``."""
    text = exchange.result.strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
        text = text[1:-1].strip()
    if not text:
        return UNKNOWN
    try:
        outcome = _value_outcome(parse_result(text))
    except CannotCompactError:
        outcome = _call_outcome(exchange, text)
    if (
        outcome == OK
        and len(text) <= _JUDGED_EDGE_CHARS
        and _undoes(text)
        and not _undoing(exchange.called.name)
    ):
        outcome = UNKNOWN
    return outcome.replace("→", "->")


def _call_outcome(exchange: ToolExchange, text: str) -> str:
    """The outcome that a plain result tells of; a failure that its exit tells of counts too."""
    ended = exchange.outcome
    if ended.is_wrong:
        return _error_outcome(ended.faults(1) or ended.text(1) or text)
    if ended.exit == "exit 0":
        return OK
    return _text_outcome(text)


def _text_outcome(text: str) -> str:
    """The outcome that words tell of."""
    edges = (
        text
        if len(text) <= 2 * _JUDGED_EDGE_CHARS
        else f"{text[:_JUDGED_EDGE_CHARS]}\n{text[-_JUDGED_EDGE_CHARS:]}"
    )
    if edges.lower() in {"false", "null", "none"}:
        return _error_outcome("false") if edges.lower() == "false" else UNKNOWN
    bare = _harmless("", _quoted("", edges))
    if refused := _refuses(edges):
        matches = [sentence for sentence in _ends(edges) if refused[0].strip() in sentence]
        return _error_outcome(matches[0] if matches else edges)
    wrong, right = _fails(bare), _succeeds(_undone("", bare))
    if wrong and (not right or wrong.start() < right.start()):
        matches = [sentence for sentence in _ends(edges) if wrong[0] in sentence]
        return _error_outcome(matches[0] if matches else edges)
    if not wrong and tells_failure(bare):
        return _error_outcome(next(filter(tells_failure, _ends(edges)), edges))
    is_done = (right or tells_success(bare)) and not wrong
    return OK if is_done and not _waits(bare) and not _negates(bare) else UNKNOWN


def _value_outcome(value: Value) -> str:
    """The outcome that JSON tells of: an object without a failure in it is what was asked for."""
    if isinstance(value, str) and not isinstance(value, Number):
        return _text_outcome(value)
    if isinstance(value, list):
        outcomes = [_value_outcome(element) for element in value if isinstance(element, dict | str)]
        return _worst_outcome(outcomes) if outcomes else UNKNOWN
    if not isinstance(value, dict) or not value:
        return UNKNOWN
    named = {_normalized_key(key): member for key, member in value.items()}
    if why := _failure_words(named):
        return _error_outcome(why)
    outcomes = [
        _value_outcome(member)
        for key, member in named.items()
        if key in _WRAPS and isinstance(member, dict)
    ]
    return _worst_outcome(
        [OK, *outcomes, *_state_outcomes(named), *([UNKNOWN] if _fails_within(value, 0) else [])]
    )


def _fails_within(value: Value, depth: int) -> bool:
    """True if a record, or one in it, is in a state of failure, by whatever fault."""
    if depth > _MAX_DEPTH:
        return True
    if isinstance(value, list):
        return any(
            _fails_within(element, depth + 1) for element in value if isinstance(element, dict)
        )
    if not isinstance(value, dict):
        return False
    named = {_normalized_key(key): member for key, member in value.items()}
    states = [member for key, member in named.items() if key in _STATES and isinstance(member, str)]
    return (
        any(map(_failed_state, states))
        or bool(_failure_words(named))
        or any(_fails_within(member, depth + 1) for member in named.values())
    )


def _worst_outcome(outcomes: Sequence[str]) -> str:
    """The first error among outcomes; else unknown where one is."""
    wrong = next((outcome for outcome in outcomes if outcome.startswith(ERROR)), "")
    return wrong or (UNKNOWN if UNKNOWN in outcomes else OK)


def _failure_words(named: Mapping[str, Value]) -> str:
    """The words of the failure that members of an object tell of; "" for none."""
    for key, member in named.items():
        if (
            key in _ERROR_MEMBERS
            and member not in (None, False, "", [], {})
            and not _is_none(member)
        ):
            return next(_failure_sentences(member), "") or next(
                _failure_sentences(dict(named)), key
            )
        is_code = isinstance(member, str) and member.isdecimal() and key in _CODES
        is_no = member is False or (isinstance(member, str) and member.lower() in _NO)
        if (
            (key in _IS_WRONG and member is True)
            or (key in _IS_RIGHT and is_no)
            or (key == "code" and isinstance(member, str) and _fails(member.replace("_", " ")))
            or (is_code and _FAILED_STATUS <= int(str(member)[:9]) <= _LAST_STATUS)
        ):
            return next(_failure_sentences(dict(named)), f"{key} {member}".lower())
    return ""


def _is_none(member: Value) -> bool:
    """True if a member that would name an error says that there is none."""
    return isinstance(member, str) and member.strip().lower() in {
        "",
        "0",
        "none",
        "null",
        "no",
        "false",
    }


def _state_outcomes(named: Mapping[str, Value]) -> Iterator[str]:
    """The outcomes that a small object's state and sentences tell of; ok where they are neutral."""
    if len(named) > _MAX_PLAIN_MEMBERS:
        return
    is_record = any(key.endswith("id") for key in named)
    for key, member in named.items():
        if (key in _STATES or (key in _WORDS and not is_record)) and isinstance(member, str):
            outcome = _text_outcome(member[: 2 * _JUDGED_EDGE_CHARS])
            is_error = outcome.startswith(ERROR) and key in _STATES
            why = next(
                (sentence for sentence in _failure_sentences(dict(named)) if sentence != member),
                member,
            )
            neutral = outcome == UNKNOWN and not _waits(member)
            yield _error_outcome(why) if is_error else OK if neutral else outcome


def _failure_sentences(failure: Value) -> Iterator[str]:
    """The text of a failure, or the telling members of an object."""
    if isinstance(failure, str):
        yield failure
    elif isinstance(failure, list):
        for element in failure:
            yield from _failure_sentences(element)
    elif isinstance(failure, dict):
        named = {_normalized_key(key): inner for key, inner in failure.items()}
        for key in _WORDS:
            if isinstance(named.get(key), str) and str(named[key]).strip():
                yield str(named[key])


def _normalized_key(key: str) -> str:
    """A key as it is known, however it is written."""
    return key[:40].replace("_", "").replace("-", "").lower()


def _error_outcome(words: str) -> str:
    """An error in its words, on one line."""
    text = flatten_text(words.strip())
    head = _title(text)
    text = text[head.end() :] if head and head.end() < len(text) else text
    return f"{ERROR}: {text_head(text, _MAX_ERROR_CHARS)}"
