"""Compacts the body of a chat call, with the reason for what was done; pure but for its caches."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from compaction.client_compaction import client_compaction_kind
from compaction.compact import CompactedChat, ConversationContext
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.chat_validation import chat_faults
from compaction.reading.message import CannotCompactError
from proxy.calls.eligibility.eligibility import RESPONSES
from proxy.prefix.breakpoints.plan import ExperimentArm, assign_arm
from proxy.prefix.layouts.declared_slots import FIELD
from proxy.prefix.message_cache import read_message
from proxy.prefix.prompts.conversation import conversation_chain
from proxy.prefix.prompts.fingerprints import team_fingerprint
from proxy.prefix.prompts.objects import Unplannable, may_hold_tags
from proxy.prefix.prompts.prompt import (
    ASSISTANT,
    Prompt,
    count_leading_roles,
    parse_message,
    parse_prompt,
)
from proxy.records.call import MESSAGES, Call, UncompactedConversation
from proxy.records.compaction_result import CompactionResult, passthrough_result
from proxy.services.compaction.conversation_forms import chat_form
from proxy.services.compaction.counting import conversation_scope, token_counter, tool_tokens
from proxy.services.compaction.recall_tool import (
    RecallRules,
    RecallUse,
    recall_use,
    with_recall_tool,
)

CONTROL: Final = "control"
DRY: Final = "dry_run"
GREW: Final = "grew"
INVALID: Final = "invalid"


class ChatCompactor(Protocol):
    """``compaction.compact.compact``, or what stands in for it."""

    def __call__(
        self,
        raws: Sequence[bytes],
        policy: CompactionPolicy,
        *,
        memory: CompactionMemory,
        context: ConversationContext,
    ) -> CompactedChat:
        """Compacts the messages.

        Raises:
            CannotCompactError: If they are sent unmodified.
        """
        ...


class CompactionTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call to compact.

    Attributes:
        is_dry: True if it is computed and not sent.
        control_share: The part of all conversations that is sent unmodified, to compare with.
        model: The name that the upstream knows its model by; "" counts as most do.
        recall: The route's rules about a tool of the gateway that is answered in between.
    """

    call: Call
    policy: CompactionPolicy
    is_dry: bool
    control_share: float
    secret: bytes
    model: str = ""
    recall: RecallRules = RecallRules()


class ConversationIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, as planning knows it.

    Attributes:
        lead: Number of instructions that lead it.
        messages: All of its unmodified messages, as JSON.
        turns: Answers that came.
    """

    name: bytes
    lead: int
    messages: tuple[bytes, ...]
    turns: int


class CompactedCall(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of compacting a call.

    Attributes:
        conversation: The conversation; None where nothing is said in it.
        is_decided: True if it is sent as its policy has it, and not unmodified for other reasons.
    """

    result: CompactionResult
    conversation: ConversationIdentity | None = None
    is_decided: bool = False


def compact_call(
    task: CompactionTask, compact_chat: ChatCompactor, memory: CompactionMemory
) -> CompactedCall:
    """Compacts a call.

    Raises:
        Unplannable: If its body cannot be read, or not be written again as it is.
        CannotCompactError: If its messages are sent unmodified.
    """
    prompt = _parse_call(task.call)
    conversation = _conversation_identity(task.call, task.secret, prompt)
    if conversation is None:
        return CompactedCall(result=passthrough_result(task.policy.mode.value, "nothing_said"))
    why = _skip_reason(task.call, prompt, conversation)
    if why:
        return CompactedCall(
            result=passthrough_result(task.policy.mode.value, why), conversation=conversation
        )
    form = chat_form(prompt)
    use = recall_use(prompt, task.recall)
    policy, context = _policy(task, use), _conversation_context(task, prompt)
    chat = compact_chat(form.raws, policy, memory=memory, context=context)
    why = _reason_to_send_unmodified(task, conversation.name, form.raws, chat)
    if why:
        is_decided = not chat.changed and not task.is_dry
        return CompactedCall(
            result=_compaction_result(task, chat, why),
            conversation=conversation,
            is_decided=is_decided,
        )
    sent_prompt = msgspec.structs.replace(prompt, messages=form.caller_messages(chat))
    if chat.removed is not None:
        sent_prompt = with_recall_tool(sent_prompt, use)
    body = sent_prompt.render()
    origin = UncompactedConversation(
        messages=conversation.messages, turns=conversation.turns, reset=chat.reset
    )
    result = msgspec.structs.replace(
        _compaction_result(task, chat, chat.reason),
        sent=msgspec.structs.replace(task.call, body=body, origin=origin),
        is_compacted=True,
        messages=chat.compacted_messages,
        last_compacted_why=chat.last_compacted_why,
        reset=chat.reset,
        break_even=chat.break_even,
        removed=chat.removed,
    )
    return CompactedCall(result=result, conversation=conversation, is_decided=True)


def _policy(task: CompactionTask, use: RecallUse) -> CompactionPolicy:
    """The task's policy; that of ``facts`` where the call cannot be given the recall tool."""
    policy = task.policy
    if policy.mode is not CompactionMode.FACTS_RECALL or use is not RecallUse.NONE:
        return policy
    return msgspec.structs.replace(policy, mode=CompactionMode.FACTS)


def identify_conversation(call: Call, secret: bytes) -> ConversationIdentity | None:
    """The conversation that a call goes on with; None where nothing is said in it.

    Raises:
        Unplannable: If its body cannot be read.
    """
    return _conversation_identity(call, secret, _parse_call(call))


def _parse_call(call: Call) -> Prompt:
    """The body of a call in its pieces.

    Raises:
        Unplannable: If it cannot be read, or not be written again as it is.
        CannotCompactError: If it is a Responses call that goes on from what its provider keeps.
    """
    try:
        return parse_prompt(call.body, is_native=call.endpoint == MESSAGES)
    except Unplannable:
        if call.endpoint != RESPONSES:
            raise
        raise CannotCompactError("api") from None


def _conversation_identity(
    call: Call, secret: bytes, prompt: Prompt
) -> ConversationIdentity | None:
    """The conversation of a call; None where nothing is said in it.

    It is named by what stands before its first answer, so that all replicas name it alike without
    asking anybody; planning names it so, too, unless another one began in the same words.
    """
    roles = [parse_message(raw).role for raw in prompt.messages]
    lead = count_leading_roles(roles)
    if lead == len(roles):
        return None
    team = team_fingerprint(secret, call.key.team)
    who = (call.key.team, call.feature, call.key.id, call.conversation, call.session)
    answers = [role == ASSISTANT for role in roles]
    first = next(
        (index for index in range(lead + 1, len(roles)) if answers[index] > answers[index - 1]),
        None,
    )
    messages = [read_message(team, raw) for raw in prompt.messages[:first]]
    name = conversation_chain(prompt, messages, who, team).beginning
    return ConversationIdentity(
        name=name, lead=lead, messages=prompt.messages, turns=roles.count(ASSISTANT)
    )


def _conversation_context(task: CompactionTask, prompt: Prompt) -> ConversationContext:
    """The scope of a conversation, its fixed tokens and its token counter."""
    count = token_counter(task.model)
    return ConversationContext(
        scope=conversation_scope(task.call.key.team, task.model),
        fixed=tool_tokens(prompt.tools, count),
        count=count,
    )


def _reason_to_send_unmodified(
    task: CompactionTask, name: bytes, came: Sequence[bytes], chat: CompactedChat
) -> str:
    """The reason to send the call unmodified although it was computed; "" where less is sent."""
    if not chat.changed:
        return chat.reason
    if assign_arm(name, task.control_share) is ExperimentArm.CONTROL:
        return CONTROL
    if chat.tokens_after > chat.tokens_before:
        return GREW
    # The last look: nothing goes out that a provider would find more wrong with than came.
    if chat_faults(chat.messages, came):
        return INVALID
    return DRY if task.is_dry else ""


def _compaction_result(task: CompactionTask, chat: CompactedChat, why: str) -> CompactionResult:
    """The result for a call, with the reason why it is sent unmodified or shorter."""
    evidence = chat.evidence
    unmodified = passthrough_result(task.policy.mode.value, why)
    return msgspec.structs.replace(
        unmodified,
        why=f"{DRY}: {chat.reason}" if why == DRY else why,
        before=chat.tokens_before,
        after=chat.tokens_after,
        needed=evidence.needed if evidence is not None else 0,
        lost=evidence.lost if evidence is not None else 0,
    )


def _skip_reason(call: Call, prompt: Prompt, conversation: ConversationIdentity) -> str:
    """The reason to skip a call; "" for none.

    Slots that a caller names stand at messages that compacting may take away.
    """
    if why := client_compaction_kind(prompt.fields, prompt.messages):
        return why
    names = call.slots.strip() or FIELD.encode() in prompt.fields.get("metadata", b"")
    tags = may_hold_tags(call.body) and any(
        map(may_hold_tags, prompt.messages[conversation.lead :])
    )
    return "slots" if names or tags else ""
