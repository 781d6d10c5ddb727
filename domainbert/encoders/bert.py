"""The shipped encoder without transformers, whose import takes longer than scoring a note.

`FastBert` computes what Hugging Face's classes compute, in the same order, and its weights have
the same names. Training, other encoders and whoever reads a model's `network` get Hugging Face's
own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn.functional import (
    embedding,
    gelu,
    scaled_dot_product_attention,
)

from domainbert.encoders.loading import Encoder, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# What is computed from the hidden states: a vector of logits for a window, from [CLS], or for
# each token; where an answer starts and ends; or nothing.
Head: TypeAlias = Literal["window", "tokens", "span", "none"]


@dataclass(frozen=True)
class BertConfig:
    """The entries of Hugging Face's configuration of a BERT that scoring reads."""

    name_or_path: str
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    pad_token_id: int
    id2label: Mapping[int, str]
    hidden_act: str = "gelu"
    model_type: str = "bert"

    @property
    def num_labels(self) -> int:
        """The number of outputs of the head."""
        return len(self.id2label)


class FastBert(nn.Module):
    """A BERT with a head, for scoring only.

    Attributes:
        original: loads Hugging Face's network of the same names and shapes.
    """

    def __init__(
        self,
        config: BertConfig,
        head: Head,
        original: Callable[[], PreTrainedModel],
    ) -> None:
        super().__init__()
        self.original = original
        self.config = config
        self._head = head
        body = _Body(config, has_pooler=head == "window")
        if head == "none":
            self.embeddings = body.embeddings
            self.encoder = body.encoder
            return
        self.bert = body
        output = nn.Linear(config.hidden_size, config.num_labels)
        if head == "span":
            self.qa_outputs = output
        else:
            self.classifier = output

    @property
    def base_model(self) -> nn.Module:
        """The encoder, without the head."""
        if self._head == "none":
            return self
        return self.bert

    def as_published(self) -> PreTrainedModel:
        """Hugging Face's network with the same weights, which are shared."""
        network = self.original()
        network.load_state_dict(self.state_dict(), assign=True)
        has_gradients = next(self.parameters()).requires_grad
        return network.requires_grad_(has_gradients).eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> SimpleNamespace:
        """The outputs, with the names of Hugging Face's; see `CLSClassifier` for the arguments."""
        mask = None
        if attention_mask is not None:
            mask = attention_mask.bool()[:, None, None, :]
        body = self if self._head == "none" else self.bert
        hidden = body.embeddings(input_ids, token_type_ids)
        *layers, last = body.encoder.layer
        for layer in layers:
            hidden = layer(hidden, mask)
        hidden = last(hidden, mask, only_cls=self._head == "window")
        if self._head == "none":
            return SimpleNamespace(last_hidden_state=hidden)
        if self._head == "span":
            start, end = self.qa_outputs(hidden).unbind(-1)
            return SimpleNamespace(
                start_logits=start.contiguous(), end_logits=end.contiguous()
            )
        if self._head == "window":
            hidden = self.bert.pooler(hidden)
        return SimpleNamespace(logits=self.classifier(hidden))


class _Body(nn.Module):
    """The encoder; the pooler that reads [CLS] only where a head needs it."""

    def __init__(self, config: BertConfig, *, has_pooler: bool) -> None:
        super().__init__()
        self.embeddings = _Embeddings(config)
        self.encoder = _Layers(config)
        if has_pooler:
            self.pooler = _Pooler(config.hidden_size, config.hidden_size)


class _Dense(nn.Module):
    """A linear layer by the name that it has in stored weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)


class _Pooler(_Dense):
    """What a classifier reads of [CLS]."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.dense(hidden[:, 0]))


class _Layers(nn.Module):
    """The layers, by the name that they have in stored weights."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        layers = [_Layer(config) for _ in range(config.num_hidden_layers)]
        self.layer = nn.ModuleList(layers)


class _Table(nn.Module):
    """A row for each number; `nn.Embedding` would draw random ones first, by torch's compiler."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return embedding(numbers, self.weight)


class _Embeddings(nn.Module):
    """The sum of what a token, its segment and its position add, normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = _Table(config.vocab_size, width)
        self.position_embeddings = _Table(
            config.max_position_embeddings, width
        )
        self.token_type_embeddings = _Table(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(
        self, ids: torch.Tensor, segments: torch.Tensor | None
    ) -> torch.Tensor:
        if segments is None:
            segments = torch.zeros_like(ids)
        words = self.word_embeddings(ids)
        positions = torch.arange(ids.shape[1], device=ids.device)
        total = words + self.token_type_embeddings(segments)
        return self.LayerNorm(total + self.position_embeddings(positions))


class _Output(nn.Module):
    """A linear layer, what it is added to, and a layer norm."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.dense = nn.Linear(inputs, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(
        self, hidden: torch.Tensor, residual: torch.Tensor
    ) -> torch.Tensor:
        return self.LayerNorm(self.dense(hidden) + residual)


class _Projections(nn.Module):
    """Queries, keys and values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)


class _Attention(nn.Module):
    """The projections before attention, and what follows it."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = _Projections(config.hidden_size)
        self.output = _Output(config.hidden_size, config)


class _Layer(nn.Module):
    """Attention and a feed-forward block, of all tokens or of [CLS] only."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self._heads = (
            config.num_attention_heads,
            width // config.num_attention_heads,
        )
        self.attention = _Attention(config)
        inner = config.intermediate_size
        self.intermediate = _Dense(width, inner)
        self.output = _Output(inner, config)

    def forward(
        self,
        hidden: torch.Tensor,
        mask: torch.Tensor | None,
        *,
        only_cls: bool = False,
    ) -> torch.Tensor:
        rows = hidden
        if only_cls:
            rows = hidden[:, :1]
        projections = self.attention.self
        query, key, value = (
            states.unflatten(-1, self._heads).transpose(1, 2)
            for states in (
                projections.query(rows),
                projections.key(hidden),
                projections.value(hidden),
            )
        )
        context = scaled_dot_product_attention(
            query, key, value, attn_mask=mask
        )
        context = context.transpose(1, 2).flatten(2)
        attended = self.attention.output(context, rows)
        inner = gelu(self.intermediate.dense(attended))
        return self.output(inner, attended)


class FastTokenizer:
    """The part of Hugging Face's fast tokenizers that scoring reads.

    Attributes:
        backend_tokenizer: from tokenizer.json, without truncation and padding.
        do_lower_case: whether it lower-cases.
        as_published: loads Hugging Face's tokenizer.
    """

    def __init__(
        self,
        folder: Path,
        as_published: Callable[[], PreTrainedTokenizerBase],
    ) -> None:
        self.as_published = as_published
        entries = json.loads(
            (folder / "tokenizer_config.json").read_text("utf-8")
        )
        backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
        backend.no_truncation()
        backend.no_padding()
        self.backend_tokenizer = backend
        self.do_lower_case = bool(entries["do_lower_case"])
        vocabulary = self.get_vocab()
        self.cls_token_id = vocabulary[entries["cls_token"]]
        self.sep_token_id = vocabulary[entries["sep_token"]]
        self.pad_token_id = vocabulary[entries["pad_token"]]
        self.unk_token_id = vocabulary[entries["unk_token"]]

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The id of each token; that of an unknown one for any other."""
        vocabulary = self.get_vocab()
        return [vocabulary.get(token, self.unk_token_id) for token in tokens]

    def get_vocab(self) -> dict[str, int]:
        """The id of every token."""
        return self.backend_tokenizer.get_vocab()

    def num_special_tokens_to_add(self, *, pair: bool) -> int:
        """How many tokens surround a text, or two."""
        return self.backend_tokenizer.num_special_tokens_to_add(pair)


def load_fast(
    encoder: Encoder,
    head: Head,
    outputs: Mapping[str, Any],
    original: Callable[[], PreTrainedModel],
) -> tuple[FastBert, FastTokenizer]:
    """The shipped encoder, in evaluation mode, and its tokenizer; a head is zero at first.

    Its files are the published ones, which `find_encoder` has checked.

    Args:
        encoder: the shipped one.
        head: what is computed from its hidden states.
        outputs: entries of Hugging Face's configuration that name or count the head's outputs.
        original: loads Hugging Face's network.
    """
    id2label = outputs.get("id2label")
    if id2label is None:
        number = outputs.get("num_labels", 0)
        id2label = {n: f"LABEL_{n}" for n in range(number)}
    folder = Path(encoder.location)
    entries = json.loads((folder / "config.json").read_text("utf-8"))
    names = {field.name for field in fields(BertConfig)}
    config = BertConfig(
        name_or_path=encoder.location,
        id2label=id2label,
        **{name: entries[name] for name in names & entries.keys()},
    )
    with torch.device("meta"):
        network = FastBert(config, head, original)
    prefix = ""
    if head != "none":
        prefix = "bert."
    stored = load_file(folder / "model.safetensors")
    weights = {}
    for name, parameter in network.state_dict().items():
        tensor = stored.get(name.removeprefix(prefix))
        if tensor is None:  # of the head
            tensor = torch.zeros(parameter.shape)
        weights[name] = tensor
    network.load_state_dict(weights, assign=True)
    tokenizer = FastTokenizer(folder, partial(load_tokenizer, encoder))
    return network.eval(), tokenizer
