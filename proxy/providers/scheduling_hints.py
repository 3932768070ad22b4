"""Hints for the scheduler of a self-hosted engine, in the words of what stands before it.

===========  ==================================================  ===============================
hints        said in                                             order
===========  ==================================================  ===============================
``vllm``     ``priority``; vLLM refuses it unless it runs with   lower is earlier
             ``--scheduling-policy priority``
``llm-d``    headers with limits, objective and team             by its own configuration
``dynamo``   ``nvext.agent_hints``                               higher is earlier
===========  ==================================================  ===============================

What the caller said is left as it is. Who it is, is for the gateway to say.

Source: vLLM 0.32.0, protocol of chat completions; llm-d router, request headers; NVIDIA Dynamo
1.3, priority scheduling and agent hints (2026-09).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from proxy.providers.port import PreparedRequest
from proxy.records.request_fields import replace_fields

VLLM: Final = "vllm"
LLM_D: Final = "llm-d"
DYNAMO: Final = "dynamo"

TTFT_HEADER: Final = "x-llm-d-slo-ttft-ms"
TPOT_HEADER: Final = "x-llm-d-slo-tpot-ms"
OBJECTIVE_HEADER: Final = "x-llm-d-inference-objective"
FAIRNESS_HEADER: Final = "x-llm-d-inference-fairness-id"
#: Seconds that calls without a latency objective count as able to wait, and the most of any call.
PATIENT_S: Final = 60.0
#: vLLM's priority of calls that nobody waits for: behind all others.
_LAST_PRIORITY: Final = 1_000_000
#: Dynamo's tiers of its queue: callers go before what the gateway asks by itself.
_CALLER_TIER: Final = 1
_MAX_INT32: Final = 2**31 - 1
_GENERATING: Final = frozenset({"/chat/completions", "/completions", "/responses"})
_WITH_NVEXT: Final = frozenset({"/chat/completions", "/completions"})
_ABSENT: Final = msgspec.Raw(b"")
_NOTHING: Final = frozenset({b"", b"null"})


class CallHints(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a call that a scheduler could use.

    Attributes:
        first_token_s: Seconds left to its first token; None where nothing limits them.
        token_s: Seconds that each further token may take; None where nothing limits them.
        wait_s: Seconds that it can wait for whatever its objective is about; None for no limit.
        objective: Name of the objective that limits it most; "" for none.
        fairness_id: Pseudonym of the team that it belongs to.
        output_tokens: Tokens that its answer is expected to have at most; None where unknown.
        is_background: True if no caller waits for it.
    """

    first_token_s: float | None = None
    token_s: float | None = None
    wait_s: float | None = None
    objective: str = ""
    fairness_id: str = ""
    output_tokens: int | None = None
    is_background: bool = False


class _HintFields(msgspec.Struct):
    priority: msgspec.Raw = _ABSENT
    nvext: msgspec.Raw = _ABSENT


_decode_fields: Final = msgspec.json.Decoder(_HintFields).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def add_hints(
    prepared: PreparedRequest, kinds: frozenset[str], hints: CallHints
) -> PreparedRequest:
    """The request with hints of these kinds; unmodified where it generates nothing.

    Args:
        kinds: Kinds that the upstream understands, of ``proxy.catalog.entries.HINTS``.
    """
    path = prepared.path.partition("?")[0]
    if prepared.method != "POST" or path not in _GENERATING:
        return prepared
    headers = _with_llm_d(prepared.headers, hints) if LLM_D in kinds else prepared.headers
    fields: dict[str, bytes] = {}
    if not kinds.isdisjoint((VLLM, DYNAMO)):
        callers = _decode_fields(prepared.body)
        if VLLM in kinds and bytes(callers.priority) in _NOTHING:
            fields["priority"] = b"%d" % vllm_priority(hints)
        if DYNAMO in kinds and path in _WITH_NVEXT:
            nvext = _with_agent_hints(bytes(callers.nvext), _agent_hints(hints))
            if nvext is not None:
                fields["nvext"] = nvext
    if not fields and headers is prepared.headers:
        return prepared
    body = replace_fields(prepared.body, fields) if fields else prepared.body
    return msgspec.structs.replace(prepared, headers=headers, body=body)


def vllm_priority(hints: CallHints) -> int:
    """Milliseconds that the call can wait: who has the least time goes first."""
    return _LAST_PRIORITY if hints.is_background else round(_wait_s(hints) * 1_000)


def _wait_s(hints: CallHints) -> float:
    limit = PATIENT_S if hints.wait_s is None else hints.wait_s
    return min(max(limit, 0.0), PATIENT_S)


def _agent_hints(hints: CallHints) -> dict[str, int]:
    """Dynamo takes a priority as seconds by which a call would have come earlier."""
    agent_hints: dict[str, int] = {}
    if not hints.is_background:
        agent_hints["priority"] = round(PATIENT_S - _wait_s(hints))
        agent_hints["strict_priority"] = _CALLER_TIER
    if hints.output_tokens is not None:
        agent_hints["osl"] = min(hints.output_tokens, _MAX_INT32)
    return agent_hints


def _with_agent_hints(nvext: bytes, agent_hints: Mapping[str, int]) -> bytes | None:
    """The caller's ``nvext`` with hints that it lacks; None where it is to stay as it is."""
    if not agent_hints:
        return None
    try:
        outer = {} if nvext in _NOTHING else _decode_object(nvext)
        raw = bytes(outer.get("agent_hints", _ABSENT))
        inner = {} if raw in _NOTHING else _decode_object(raw)
    except msgspec.DecodeError:
        return None  # the caller's mistake is the engine's to explain
    added = {name: b"%d" % value for name, value in agent_hints.items() if name not in inner}
    if not added:
        return None
    hints = replace_fields(msgspec.json.encode(inner), added)
    return replace_fields(msgspec.json.encode(outer), {"agent_hints": hints})


def _with_llm_d(headers: Mapping[str, str], hints: CallHints) -> Mapping[str, str]:
    """The headers with llm-d's; limits and objective only where the caller named none."""
    added: dict[str, str] = {}
    if hints.first_token_s is not None:
        added[TTFT_HEADER] = _milliseconds(hints.first_token_s)
    if hints.token_s is not None:
        added[TPOT_HEADER] = _milliseconds(hints.token_s)
    if name := _resource_name(hints.objective):
        added[OBJECTIVE_HEADER] = name
    added |= {name: headers[name] for name in added if name in headers}
    if hints.fairness_id:
        added[FAIRNESS_HEADER] = hints.fairness_id
    return {**headers, **added}


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1_000)))


def _resource_name(objective: str) -> str:
    """The name of the InferenceObjective that stands for an objective; "" where it can have none.

    Names of resources are in lower case, of letters, digits, hyphens and dots.
    """
    name = objective.lower().replace("_", "-")
    is_valid = name.replace("-", "").replace(".", "").isalnum() and name.isascii()
    return name if is_valid and name[0].isalnum() and name[-1].isalnum() else ""
