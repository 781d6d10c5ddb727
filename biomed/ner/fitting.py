"""Train an entity model on corpora, choosing the weights on their devel sides."""

from __future__ import annotations

import hashlib
import logging
import math
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.corpora.corpus import without
from biomed.corpora.tags import CorpusError
from biomed.ner.decoding import tags_for
from biomed.ner.evaluation import check_types, evaluate_words
from biomed.ner.examples import Augmentation, ExampleMaker, Source
from biomed.ner.network import EntitySettings, WordTagger
from domainbert.errors import UserError
from domainbert.training.old.batches import EpochBatches
from domainbert.training.old.checkpoints import resume_point
from domainbert.training.old.recipes import versions
from domainbert.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from transformers import PreTrainedModel

    from biomed.corpora.corpus import Corpus
    from biomed.corpora.tags import TaggedText
    from biomed.ner.evaluation import Scores

log = logging.getLogger(__name__)


def fit(
    corpora: Sequence[Corpus],
    *,
    encoder: str | Path,
    training: TrainingSettings | None = None,
    settings: EntitySettings | None = None,
    augmentation: Augmentation | None = None,
    repeat: Mapping[str, float] | None = None,
    checkpoints: str | Path | None = None,
    resume: bool = False,
) -> WordTagger:
    """Train on the corpora's train sides together, choose the weights on their devel sides.

    The entity types are those of all corpora. In a corpus that annotates only some of them, an
    `O` leaves the other types open. A training text that also stands in a devel or test side is
    left out. The weights kept are those with the best mean, over the corpora, of entity F1 on
    devel. A corpus without a devel side (a silver one, say) only trains, with those of its texts
    that no corpus with a devel side has.

    Args:
        corpora: each with a train side, and at least one with a devel side.
        encoder: shipped name, folder or Hub id.
        training: see `TrainingSettings`.
        settings: windows.
        augmentation: see there.
        repeat: how often an epoch reads a corpus, by its name; once by default. At 0.1 each
            epoch reads another tenth.
        checkpoints: folder that keeps the trainer's checkpoints; a temporary one by default.
        resume: go on from the last checkpoint there.

    Returns:
        The trained model, on the device it trained on.

    Raises:
        CorpusError: a corpus without a train side, none with a devel side, or a side without
            entities.
        ValueError: `repeat` names no corpus or is not above 0, or devel has types that train has
            not.
    """
    repeat = dict(repeat or {})
    _check(corpora, repeat)
    training, augmentation = training or TrainingSettings(), augmentation or Augmentation()
    kinds = sorted({kind for corpus in corpora for kind in _side(corpus, "train").types})
    for corpus in corpora:
        if corpus.devel:
            check_types(kinds, corpus.devel)
    model = WordTagger.untrained(
        encoder, training=training, settings=settings, labels=tags_for(kinds)
    )
    sources, allowed = _sources(corpora, kinds, repeat)
    maker = ExampleMaker(
        sources,
        reader=model.reader,
        window=model.window,
        augmentation=augmentation,
        mask_id=model.tokenizer.mask_token_id,
        seed=training.seed,
    )
    with tempfile.TemporaryDirectory() as temporary:
        model = _train(
            model,
            EpochBatches(maker, batch_tokens=training.batch_tokens, seed=training.seed),
            allowed,
            validate=_validator(model, corpora),
            training=training,
            encoder=encoder,
            folder=Path(checkpoints or temporary),
            resume=resume,
        )
    model.manifest = _manifest(corpora, sources, training, augmentation)
    model.manifest["devel"] = measured(model, corpora, side="devel")
    return model


def measured(model: WordTagger, corpora: Sequence[Corpus], *, side: str) -> dict[str, Any]:
    """Scores on one side of each corpus that has it, by corpus."""
    return {
        corpus.name: evaluate_words(model, gold).to_dict()
        for corpus in corpora
        if (gold := getattr(corpus, side)) is not None
    }


def _check(corpora: Sequence[Corpus], repeat: dict[str, Any]) -> None:
    for corpus in corpora:
        if not _side(corpus, "train").types or (corpus.devel and not corpus.devel.types):
            msg = f"corpus {corpus.name} needs entities in train and in devel"
            raise CorpusError(msg)
    if not any(corpus.devel for corpus in corpora):
        msg = "no corpus has a devel side, which chooses the weights"
        raise CorpusError(msg)
    names = [corpus.name for corpus in corpora]
    if strange := [name for name in repeat if name not in names]:
        msg = f"no corpus is called {strange[0]!r}; there are {', '.join(names) or 'none'}"
        raise UserError(msg)
    for name, times in repeat.items():
        is_number = isinstance(times, int | float) and not isinstance(times, bool)
        if not is_number or not 0 < times < math.inf:
            msg = f"repeat of {name} must be a number above 0, got {times!r}"
            raise UserError(msg)


def _side(corpus: Corpus, side: str) -> Any:
    gold = getattr(corpus, side)
    if gold is None:
        msg = f"corpus {corpus.name} has no {side} side, which training needs"
        raise CorpusError(msg)
    return gold


def _sources(
    corpora: Sequence[Corpus], kinds: Sequence[str], repeat: Mapping[str, float]
) -> tuple[list[Source], Any]:
    """The train sides with their codes, and which outputs each code allows."""
    import torch

    labels = tags_for(kinds)
    sources, allowed = [], list(np.eye(len(labels), dtype=bool))
    for corpus in corpora:
        codes = {label: number for number, label in enumerate(labels)}
        types = _side(corpus, "train").types
        if open_kinds := [kind for kind in kinds if kind not in types]:
            codes["O"] = len(allowed)
            allowed.append(np.isin(labels, tags_for(open_kinds)))
        sources.append(Source(_texts(corpus, corpora), codes, repeat.get(corpus.name, 1)))
    return sources, torch.from_numpy(np.stack(allowed))


def _texts(corpus: Corpus, corpora: Sequence[Corpus]) -> tuple[TaggedText, ...]:
    """What a corpus trains on: no text held out; without devel, none of a corpus that has it."""
    taken = [gold for other in corpora for gold in (other.devel, other.test) if gold]
    if not corpus.devel:
        taken += [_side(other, "train") for other in corpora if other.devel]
    train = _side(corpus, "train").texts
    texts = tuple(without(train, [text for gold in taken for text in gold.texts]))
    if not texts:
        msg = f"{corpus.name}: all texts to train on stand in a devel or test side, or elsewhere"
        raise CorpusError(msg)
    if dropped := len(train) - len(texts):
        log.warning(
            "%s: %d training texts also stand in another side or corpus and are left out",
            corpus.name,
            dropped,
        )
    return texts


def _validator(
    model: WordTagger, corpora: Sequence[Corpus]
) -> Callable[[PreTrainedModel], dict[str, float]]:
    """Network -> mean entity F1 on the devel sides, by the path that prediction takes."""

    def validate(network: PreTrainedModel) -> dict[str, float]:
        scores: dict[str, Scores] = {
            corpus.name: evaluate_words(model, corpus.devel, network=network)
            for corpus in corpora
            if corpus.devel
        }
        each = {f"f1_{name}": score.overall.f1 for name, score in scores.items()}
        return {"f1": float(np.mean(list(each.values()))), **each}

    return validate


def _train(
    model: WordTagger,
    batches: EpochBatches,
    allowed: Any,
    *,
    validate: Callable[[PreTrainedModel], dict[str, float]],
    training: TrainingSettings,
    encoder: str | Path,
    folder: Path,
    resume: bool,
) -> WordTagger:
    from biomed.ner.trainer import TagTrainer
    from domainbert.lora import add_lora

    trainer = TagTrainer(
        add_lora(model.network, training.lora),
        batches=batches,
        allowed=allowed,
        settings=training,
        evaluate=validate,
        pad_token_id=model.tokenizer.pad_token_id,
        folder=folder,
    )
    trainer.train(resume_from_checkpoint=resume_point(folder, training, resume=resume))
    return model.finished(trainer.trained(), encoder=encoder, lora=training.lora)


def _manifest(
    corpora: Sequence[Corpus],
    sources: Sequence[Source],
    training: TrainingSettings,
    augmentation: Augmentation,
) -> dict[str, Any]:
    return {
        "training": training.model_dump(),
        "augmentation": asdict(augmentation),
        "counts": {
            f"{corpus.name}, texts for training": len(source.texts)
            for corpus, source in zip(corpora, sources, strict=True)
        },
        "corpora": {
            corpus.name: {
                "types": list(_side(corpus, "train").types),
                "repeat": source.repeat,
                "left_out": len(_side(corpus, "train").texts) - len(source.texts),
                **{
                    side: {"texts": len(gold.texts), "sha256": _hash(gold)}
                    for side in ("train", "devel", "test")
                    if (gold := getattr(corpus, side)) is not None
                },
            }
            for corpus, source in zip(corpora, sources, strict=True)
        },
        "versions": versions(),
    }


def _hash(gold: Any) -> str:
    """A fingerprint of all words and tags; says nothing about any of them."""
    digest = hashlib.sha256()
    for text in gold.texts:
        digest.update("\x1f".join((*text.words, *text.tags, "\n")).encode("utf-8", "replace"))
    return digest.hexdigest()
