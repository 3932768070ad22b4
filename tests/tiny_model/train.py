"""Trains the tiny model of ``thriftgate engine demo`` and its draft, and writes both as GGUF.

``python -m tests.tiny_model.train FOLDER``, with PyTorch, ``tokenizers`` and ``gguf`` installed;
the README of ``proxy/tools/engine_demo/model`` has the versions. Steps and seed are fixed.
"""

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional

from proxy.tools.demo.conversation import file_table
from tests.tiny_model.weights import (
    CONTEXT,
    HEAD,
    NORM_EPSILON,
    ROPE_BASE,
    SPECIAL_TOKENS,
    Shape,
    write_gguf,
)

TARGET: Final = Shape("acme-parcel", width=64, layers=20, heads=2, inner=128)
DRAFT: Final = Shape("acme-parcel-draft", width=32, layers=1, heads=1, inner=64)

_VOCABULARY: Final = 1_024
_SEED: Final = 17
#: The first tokens of an answer tell if the question was understood; the rest follows from them.
_FIRST_TOKENS: Final = 5
_FIRST_WEIGHT: Final = 4.0
_SHOWN_STEPS: Final = 21
_SHORT_SYSTEM: Final = "You answer customers of Acme Parcel."
_OPENINGS: Final = ("", "", "", "Hello, ", "Hi! ", "Please tell me: ", "A question: ", "Hello. ")


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The conversations of a step.

    Attributes:
        rows: Their number.
        length: Tokens of each.
        handbook: Tokens of the handbook in the system message, at most.
        turns: Questions of each, at most.
    """

    rows: int
    length: int
    handbook: int = 0
    turns: int = 3


_SHORT: Final = BatchSize(rows=16, length=160)
#: From a third of the run on, half of the steps have long prompts: an answer then depends on the
#: question that stands close, and not on the handbook before it.
_CYCLE: Final = (
    _SHORT,
    BatchSize(rows=5, length=560, handbook=300, turns=5),
    _SHORT,
    BatchSize(rows=1, length=2_600, handbook=2_000, turns=10),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a training run.

    Attributes:
        steps: Optimizer steps.
        rate: Highest learning rate.
    """

    steps: int
    rate: float

    def batch_size(self, step: int) -> BatchSize:
        """The conversations of a step."""
        return _SHORT if step < self.steps // 3 else _CYCLE[step % len(_CYCLE)]


class Block(nn.Module):
    """One layer: attention with rotary positions and grouped keys, then a gated inner layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, keys = shape.width, shape.key_heads * HEAD
        self.attn_norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.attn_q = nn.Linear(width, shape.heads * HEAD, bias=False)
        self.attn_k = nn.Linear(width, keys, bias=False)
        self.attn_v = nn.Linear(width, keys, bias=False)
        self.attn_output = nn.Linear(shape.heads * HEAD, width, bias=False)
        self.ffn_norm = nn.RMSNorm(width, eps=NORM_EPSILON)
        self.ffn_gate = nn.Linear(width, shape.inner, bias=False)
        self.ffn_up = nn.Linear(width, shape.inner, bias=False)
        self.ffn_down = nn.Linear(shape.inner, width, bias=False)

    def forward(self, hidden: Tensor, turn: Tensor) -> Tensor:
        """The hidden states after this layer."""
        rows, length, _ = hidden.shape
        normed = self.attn_norm(hidden)
        query, key, value = (
            projection(normed).view(rows, length, -1, HEAD).transpose(1, 2)
            for projection in (self.attn_q, self.attn_k, self.attn_v)
        )
        mixed = functional.scaled_dot_product_attention(
            _rotate(query, turn), _rotate(key, turn), value, is_causal=True, enable_gqa=True
        )
        hidden = hidden + self.attn_output(mixed.transpose(1, 2).reshape(rows, length, -1))
        normed = self.ffn_norm(hidden)
        inner = functional.silu(self.ffn_gate(normed)) * self.ffn_up(normed)
        return hidden + self.ffn_down(inner)


class TinyLlama(nn.Module):
    """A Llama whose output weights are its embedding's; modules have the names of GGUF tensors."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token_embd = nn.Embedding(_VOCABULARY, shape.width)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.output_norm = nn.RMSNorm(shape.width, eps=NORM_EPSILON)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.06)
        for block in self.blk:
            for last in (block.attn_output, block.ffn_down):
                nn.init.normal_(last.weight, std=0.06 / (2 * shape.layers) ** 0.5)
        self.register_buffer("turns", _turns(CONTEXT), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """The hidden states before the output weights."""
        hidden = self.token_embd(tokens)
        for block in self.blk:
            hidden = block(hidden, self.turns[: tokens.shape[1]])
        return self.output_norm(hidden)

    def loss(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """The mean cross-entropy of the tokens that have a weight."""
        hidden, weights = self(tokens)[:, :-1], weights[:, 1:]
        counted = weights > 0
        scores = hidden[counted] @ self.token_embd.weight.T
        losses = functional.cross_entropy(scores, tokens[:, 1:][counted], reduction="none")
        return (losses * weights[counted]).sum() / weights.sum()


def _turns(length: int) -> Tensor:
    """The rotation of each position, as complex numbers; pairs are neighbours, as in GGUF."""
    speeds = ROPE_BASE ** (-torch.arange(0, HEAD, 2) / HEAD)
    angles = torch.outer(torch.arange(length), speeds)
    return torch.polar(torch.ones_like(angles), angles)


def _rotate(states: Tensor, turn: Tensor) -> Tensor:
    pairs = torch.view_as_complex(states.reshape(*states.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn).flatten(-2)


class Text:
    """The training text as conversations of tokens."""

    def __init__(self) -> None:
        self.topics = file_table(files("proxy.tools.engine_demo.model") / "answers.toml", "topic")
        handbook = files("proxy.tools.demo") / "texts/handbook.md"
        self.handbook = handbook.read_text("utf8")
        self.tokenizer = self._train_tokenizer()
        self._dice = random.Random(_SEED)  # noqa: S311 - no secret
        self._handbook_tokens = self.encode(self.handbook)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def batch(self, size: BatchSize) -> tuple[Tensor, Tensor]:
        """Tokens of conversations, and the weight of each in the loss."""
        tokens = torch.zeros(size.rows, size.length, dtype=torch.long)
        weights = torch.zeros(size.rows, size.length)
        for row in range(size.rows):
            ids, marks = self._conversation(size)
            tokens[row, : len(ids)] = torch.tensor(ids)
            weights[row, : len(ids)] = torch.tensor(marks)
        return tokens, weights

    def _conversation(self, size: BatchSize) -> tuple[list[int], list[float]]:
        """The tokens of one conversation, and their weights: only answers count."""
        ids = self._system(size.handbook)
        weights = [0.0] * len(ids)
        least = size.turns // 2 if size.handbook else 1
        for _ in range(self._dice.randint(least, size.turns)):
            topic = self._dice.choice(self.topics)
            words = self._vary(self._dice.choice(topic["asks"]))
            question = self.encode(f"<|im_start|>user\n{words}<|im_end|>\n<|im_start|>assistant\n")
            answer = self.encode(f"{topic['answer']}<|im_end|>")
            end = self.encode("\n")
            ids += [*question, *answer, *end]
            first = [_FIRST_WEIGHT] * min(_FIRST_TOKENS, len(answer))
            weights += [0.0] * len(question) + first + [1.0] * (len(answer) - len(first))
            weights += [0.0] * len(end)
        return ids[: size.length], weights[: size.length]

    def _system(self, handbook: int) -> list[int]:
        dice = self._dice
        if handbook:
            size = dice.randrange(handbook // 3, handbook)
            start = 0 if dice.random() < 0.5 else dice.randrange(200)
            text = self._handbook_tokens[start : start + size]
        elif dice.random() < 0.5:
            return []
        else:
            text = self.encode(_SHORT_SYSTEM)
        return [*self.encode("<|im_start|>system\n"), *text, *self.encode("<|im_end|>\n")]

    def _vary(self, question: str) -> str:
        """A question as another customer would type it."""
        dice = self._dice
        words = question.split()
        if len(words) > 4 and dice.random() < 0.3:
            del words[dice.randrange(len(words))]
        text = " ".join(words)
        if dice.random() < 0.2:
            text = text.lower()
        if dice.random() < 0.2:
            text = text.rstrip("?.!")
        return dice.choice(_OPENINGS) + text

    def _train_tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=_VOCABULARY,
            special_tokens=list(SPECIAL_TOKENS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(self._tokenizer_text(), trainer)
        return tokenizer

    def _tokenizer_text(self) -> Iterator[str]:
        yield self.handbook
        for topic in self.topics:
            yield from topic["asks"]
            yield topic["answer"]


def train(shape: Shape, text: Text, plan: Schedule) -> TinyLlama:
    """A trained model."""
    torch.manual_seed(_SEED)
    model = TinyLlama(shape)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.01
    )
    ramp = torch.optim.lr_scheduler.OneCycleLR(optimizer, plan.rate, plan.steps, pct_start=0.1)
    for step in range(plan.steps):
        tokens, weights = text.batch(plan.batch_size(step))
        loss = model.loss(tokens, weights)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ramp.step()
        if step % _SHOWN_STEPS == 0:
            shown = f"{shape.name}: step {step} of {plan.steps}, loss {loss.item():.3f}"
            sys.stderr.write(f"{shown}\n")
    return model


def main(argv: Sequence[str] | None = None) -> None:
    """Train both models and write them to a folder."""
    parser = argparse.ArgumentParser(description="Train the tiny model and its draft.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, shape, plan in (
        ("target.gguf", TARGET, Schedule(steps=600, rate=4e-3)),
        ("draft.gguf", DRAFT, Schedule(steps=360, rate=8e-3)),
    ):
        text = Text()  # anew, so that a model depends on nothing but its own run
        model = train(shape, text, plan)
        tensors = {key: value.detach().numpy() for key, value in model.state_dict().items()}
        write_gguf(options.folder / name, shape, tensors, text.tokenizer.to_str())


if __name__ == "__main__":
    main()
