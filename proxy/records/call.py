"""One request from a caller, and who is calling."""

from typing import Final
from urllib.parse import unquote

import msgspec

from proxy.records.agents import stable_user
from proxy.records.body_reader import SplitBody
from proxy.records.request_fields import RequestFields

#: Beginnings of paths that name a model.
MODELS_PREFIX: Final = "models/"
#: Endpoint of Anthropic's Messages API.
MESSAGES: Final = "messages"
#: Endpoints of OpenAI's API alone, whatever a call's headers say.
_OPENAI_ENDPOINTS: Final = frozenset({"chat/completions", "completions", "embeddings", "responses"})
_OF_MODELS: Final = frozenset({"GET", "DELETE"})
#: Beginning of the feature of calls that only warm a prompt, before that of the call itself.
WARMING_PREFIX: Final = "warming:"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A caller's key, as the gateway knows it once authenticated.

    Attributes:
        id: Public name of the key, such as ``key_…``; never the secret.
        team: The id of the team that owns and pays.
        feature: The feature label of calls that name none.
        expires: Time from which it opens nothing, in seconds since the epoch; None for never.
        models: The models that its calls may ask for; None for all.
    """

    id: str
    team: str
    team_name: str
    feature: str = ""
    keeps_prompts: bool = False
    revoked: bool = False
    expires: float | None = None
    models: frozenset[str] | None = None

    def has_expired(self, now: float) -> bool:
        """True if its time is over."""
        return self.expires is not None and now >= self.expires


class UncompactedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's own messages behind a shorter prompt.

    Attributes:
        messages: Each of them, as JSON: they tell which conversation it is.
        turns: Answers they hold.
        reset: True if the prompt begins otherwise than the call before it did, on purpose.
    """

    messages: tuple[bytes, ...]
    turns: int
    reset: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request from a caller, authenticated and read; its bytes are never modified.

    Attributes:
        id: Sorts by time; unique without coordination.
        method: The HTTP method, in capitals.
        endpoint: The path below ``/v1/``, such as ``chat/completions``.
        query: The raw query string, without ``?``.
        headers: The caller's headers that may be passed on, names in lower case.
        fields: Fields read from them; None where the body is not JSON.
        split: The body as it came, with its messages apart; None where they were not found.
        feature: From the header, the body, or the key; "" where it was not given.
        conversation: Caller's name of its conversation; "" where there is none.
        session: Session in its client's headers, hashed; "" for none.
        slots: Slots header of the caller; "" for none.
        compaction: Compaction header of the caller; "" for none.
        draft: Draft header of the caller, a model's public name or ``off``; "" for none.
        cache_control: Cache-control header of the caller; "" for none.
        cache_tags: Header with the names by which its answer may be purged; "" for none.
        arrived: Time of arrival, in seconds since the epoch (UTC).
        notes: Parts that were read otherwise than written, in short sentences.
        salt: Secret that keeps its team out of others' caches; "" where teams share them.
        origin: Whence its body was shortened; None where it is the caller's own.
        regions: Regions where it may be processed; None for anywhere.
        substitute: The public name of the model that answers in place of the one asked for; ""
            where that one answers itself.
        tags: Keys of its metadata that its team named, with their values.
    """

    id: str
    key: Key
    method: str
    endpoint: str
    query: str = ""
    headers: dict[str, str]
    body: bytes
    fields: RequestFields | None
    split: SplitBody | None = None
    feature: str = ""
    conversation: str = ""
    session: str = ""
    slots: str = ""
    compaction: str = ""
    draft: str = ""
    cache_control: str = ""
    cache_tags: str = ""
    arrived: float
    notes: tuple[str, ...] = ()
    salt: str = ""
    origin: UncompactedConversation | None = None
    regions: frozenset[str] | None = None
    substitute: str = ""
    tags: tuple[tuple[str, str], ...] = ()

    @property
    def is_streaming(self) -> bool:
        """True if the caller asked for a stream."""
        return self.fields is not None and bool(self.fields.stream)

    @property
    def model(self) -> str:
        """The public model name asked for; "" for calls that name none."""
        return self.fields.model if self.fields is not None else ""

    @property
    def speaks_messages(self) -> bool:
        """True if it is a call of Anthropic's API, whatever its model."""
        if self.endpoint in _OPENAI_ENDPOINTS:
            return False
        is_messages = self.endpoint == MESSAGES or self.endpoint.startswith(f"{MESSAGES}/")
        return is_messages or "anthropic-version" in self.headers

    @property
    def path_model(self) -> str:
        """The model that the call's path names, to retrieve or delete it; "" for any other call.

        Source: OpenAI API reference, retrieve a model, delete a fine-tuned model (2026-11).
        """
        is_about_model = self.method in _OF_MODELS and self.endpoint.startswith(MODELS_PREFIX)
        return unquote(self.endpoint.removeprefix(MODELS_PREFIX)) if is_about_model else ""

    @property
    def end_user(self) -> str:
        """The opaque end user the caller named; "" for none."""
        if self.fields is None:
            return ""
        named = self.fields.metadata.user_id if self.fields.metadata is not None else None
        if self.endpoint == MESSAGES and isinstance(named, str):
            return stable_user(named)
        return self.fields.end_user

    @property
    def is_unattended(self) -> bool:
        """True if nobody waits for its answer: it warms a prompt."""
        return self.feature.startswith(WARMING_PREFIX)

    @property
    def is_background(self) -> bool:
        """True if its answer is made after it is answered, and what that used is not told here."""
        return self._responses_fields is not None and self._responses_fields.is_background

    @property
    def offers_hosted(self) -> bool:
        """True if it offers a tool that its provider runs, for a fee beside its tokens."""
        return self._responses_fields is not None and self._responses_fields.offers_hosted

    @property
    def _responses_fields(self) -> RequestFields | None:
        """The fields of a Responses call; None for any other."""
        return self.fields if self.endpoint == "responses" else None
