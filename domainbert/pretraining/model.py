"""BERT with its two pretraining heads, what training starts from, and the encoder folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining, PreTrainedTokenizerBase
from transformers.models.bert.modeling_bert import BertForPreTrainingOutput

from domainbert.encoders.configs import window_limit
from domainbert.encoders.loading import (
    EncoderError,
    find_encoder,
    load_config,
    load_model,
    load_tokenizer,
)
from domainbert.errors import UserError
from domainbert.files import (
    JsonObject,
    folder_beside,
    replace_folder,
    write_json,
)
from domainbert.models.card import table
from domainbert.models.storage import CONFIG_FILE, save_network, share_files
from domainbert.pretraining.examples import IGNORED
from domainbert.pretraining.settings import PretrainingRecipe, TrainingPlan
from domainbert.training.train import versions

EncoderManifest = JsonObject  # as JSON; see `new_manifest`
MANIFEST_FILE = "pretraining.json"


class PretrainingNetwork(BertForPreTraining):
    """BERT for pretraining with less arithmetic: the same weights and losses.

    The output layer is as wide as the vocabulary; for a small encoder it costs as much as all
    layers together. Only the masked tokens go through it.
    """

    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor,
        token_type_ids: torch.Tensor,
        next_sentence_label: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
    ) -> BertForPreTrainingOutput:
        """Predict masked tokens, and whether the second segment follows the first.

        Args:
            input_ids: shape (rows, tokens), like the next two and the mask.
            labels: masked tokens, `IGNORED` elsewhere.
            token_type_ids: 0 in the first segment and 1 in the second.
            next_sentence_label: 0 if the second segment follows, else 1, shape (rows,).
            attention_mask: 1 for a token and 0 for padding.

        Returns:
            `prediction_logits` of shape (masked tokens, vocabulary), `seq_relationship_logits` of
            shape (rows, 2), and `loss`, the sum of the two mean cross-entropies.
        """
        outputs = self.bert(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
        )
        pair_logits = self.cls.seq_relationship(outputs.pooler_output)
        masked = labels != IGNORED
        token_logits = self.cls.predictions(outputs.last_hidden_state[masked])
        # A batch of short rows may mask nothing, and its mean would be NaN.
        token_losses = cross_entropy(
            token_logits.float(),
            labels[masked],
            reduction="sum",
        )
        token_loss = token_losses / masked.sum().clamp(min=1)
        return BertForPreTrainingOutput(
            loss=token_loss
            + cross_entropy(pair_logits.float(), next_sentence_label),
            prediction_logits=token_logits,
            seq_relationship_logits=pair_logits,
        )


# --- the start


@dataclass(frozen=True)
class Start:
    """What training starts from.

    Attributes:
        network: in evaluation mode.
        tokenizer: the tokenizer of the encoder.
        name: the name of the encoder.
        sha256: its checksum.
        fresh_head: whether it came without a trained output layer.
        dropout: its hidden and attention dropout, to be written back at the end.
    """

    network: PretrainingNetwork = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    name: str
    sha256: str
    fresh_head: bool
    dropout: tuple[float, float]


def load_start(encoder: str | Path, *, plan: TrainingPlan) -> Start:
    """Load an encoder with its heads, or with new ones.

    Raises:
        EncoderError: no such encoder, not a BERT, or its tokenizer lacks [CLS], [SEP] or [MASK].
        UserError: the examples are longer than it reads.
    """
    files = find_encoder(encoder)
    config = load_config(files)
    tokenizer = load_tokenizer(files)
    if None in (
        tokenizer.cls_token,
        tokenizer.sep_token,
        tokenizer.mask_token,
    ):
        raise EncoderError(
            f"the tokenizer of {encoder} lacks [CLS], [SEP] or [MASK], which BERT is trained with"
        )
    limit = window_limit(config)
    if plan.length > limit:
        raise UserError(
            f"[training] has examples of {plan.length} tokens, but {encoder} reads at most "
            f"{limit}; set length = {limit} there"
        )
    torch.manual_seed(plan.seed)
    network = load_model(
        files,
        PretrainingNetwork,
        hidden_dropout_prob=plan.dropout,
        attention_probs_dropout_prob=0.0,
    )
    # A new output bias is zero everywhere; a trained one never is.
    is_fresh = not bool(network.cls.predictions.bias.any())
    return Start(
        network=network,
        tokenizer=tokenizer,
        name=files.name,
        sha256=files.sha256,
        fresh_head=is_fresh,
        dropout=(
            config.hidden_dropout_prob,
            config.attention_probs_dropout_prob,
        ),
    )


def start_output_layer(
    network: PretrainingNetwork, frequencies: np.ndarray
) -> None:
    """Initialize a new output layer in place, from the frequency of each token in the corpus.

    The bias starts at the log frequencies, which training would learn first. The transform starts
    as the identity, because the encoder's outputs still resemble the embeddings they are compared
    with. After 45 steps of 1,024 tokens from the shipped encoder, the held-out loss is 6.89 with
    neither, 6.63 with the bias and 5.97 with both. `frequencies` has shape (vocabulary,).
    """
    # Adding one to each count leaves no token impossible.
    smoothed = frequencies + 1
    logarithms = np.log(smoothed / smoothed.sum())
    head = network.cls.predictions
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(logarithms - logarithms.mean()))
        torch.nn.init.eye_(head.transform.dense.weight)


# --- the encoder that is written


def check_free(folder: Path) -> None:
    """Raise `FileExistsError` if a folder is not empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(
            f"{folder} exists already; move it away or choose another name"
        )


def new_manifest(
    recipe: PretrainingRecipe,
    *,
    counts: Mapping[str, object],
    start: Start,
) -> EncoderManifest:
    """How an encoder is made: settings and counts of the text, nothing that identifies a person."""
    settings = recipe.model_dump()
    return {
        "encoder": {
            "name": start.name,
            "sha256": start.sha256,
            "fresh_head": start.fresh_head,
        },
        "corpus_settings": settings["corpus"],
        "corpus": dict(counts),
        "examples_settings": settings["examples"],
        "training": settings["training"],
        "card": settings["card"],
        "versions": {**versions(), "tokenizers": version("tokenizers")},
    }


def save_encoder(
    folder: Path,
    *,
    network: PretrainingNetwork,
    start: Start,
    manifest: EncoderManifest,
) -> None:
    """Write an encoder folder: weights with the heads, tokenizer, manifest and card."""
    check_free(folder)  # again: training takes days
    config = network.config
    config.hidden_dropout_prob, config.attention_probs_dropout_prob = (
        start.dropout
    )
    with folder_beside(folder) as temporary:
        document = save_network(temporary, network, start.tokenizer)
        write_json(document, temporary / CONFIG_FILE)
        write_json(manifest, temporary / MANIFEST_FILE)
        (temporary / "README.md").write_text(encoder_card(manifest), "utf-8")
        share_files(temporary)
        replace_folder(temporary, folder)


def measure_table(manifest: EncoderManifest) -> list[list[str]]:
    """The measures before and after training as rows of text, a head first."""
    rows = [
        [
            "held-out documents",
            "MLM accuracy",
            "MLM perplexity",
            "NSP accuracy",
        ]
    ]
    for when in ("before", "after"):
        measures = manifest[when]
        row = [
            f"{when}, {manifest['training']['length']} tokens",
            f"{measures['mlm_accuracy']:.3f}",
            f"{measures['perplexity']:,.1f}",
            f"{measures['nsp_accuracy']:.3f}",
        ]
        rows.append(row)
    return rows


def encoder_card(manifest: EncoderManifest) -> str:
    """Markdown for the README of an encoder folder, from its manifest."""
    environment = Environment(
        loader=PackageLoader("domainbert.pretraining", "."),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  (Markdown)
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    head, *rows = measure_table(manifest)
    template = environment.get_template("card.md.jinja")
    return template.render(
        manifest,
        about=manifest["card"],
        scores=table(head, rows),
    )
