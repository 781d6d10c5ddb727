"""Train a student entity model on the soft labels of larger teachers, and then on gold tags.

    python -m recipes.distillation CORPUS... --data DATA --teacher MODEL --recipe RECIPE --out MODEL

The student learns from the teachers' probabilities on the corpora and on texts without tags:
sentences of PubMed, answers of MedQuAD and notes. The corpora's own tags are learned from last.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
import typer

from biomed.corpora import Document, TaggedText
from biomed.corpora.documents import OUTSIDE, tagged
from biomed.ner.decoding import tags_for
from biomed.ner.examples import IGNORED, ExampleMaker, Source, entity_types
from biomed.ner.manifest import EntitySettings
from biomed.ner.tagger import EntityTagger
from biomed.ner.training import EntityRecipe, TagObjective, record
from domainbert.cli.console import one_line_errors
from domainbert.settings import Positive, Share  # noqa: TC001 (pydantic reads them)
from domainbert.streams import chunked
from domainbert.text.sentences import split_sentences
from domainbert.training.objective import Batch, FreshBatches, fingerprint
from domainbert.training.recipes import read_recipe
from domainbert.training.settings import TrainingSettings
from domainbert.training.train import train
from recipes.entities import (
    Average,
    Checkpoints,
    Corpora,
    ModelFolder,
    RecipeFile,
    Resume,
    Seeds,
    save_best,
)
from recipes.notes.real import measured_letters, only_letters
from recipes.notes.sections import real_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transformers import PreTrainedModel

    from biomed.corpora import Corpus

CRAFT = "ner/craft/articles.jsonl.gz"
PUBMED = "text/pubmed_sentences.txt.gz"
MEDQUAD = "text/medquad.jsonl.gz"
PARAGRAPH_BREAK = re.compile(r"\n[ \t]*\n")
SHORTEST = 20  # characters of a paragraph
SMALLEST = 1e-7  # probability of a tag
TextKey = tuple[TaggedText, int | None]


class SoftStage(TrainingSettings):
    """The `[soft]` table: the stage that learns from all texts, and the weights of the losses.

    Attributes:
        temperature: divides the log-probabilities of teachers and student; 2 shows the student
            which wrong tags the teachers find likely (Hinton et al., arXiv 1503.02531).
        gold: weight of the cross-entropy of gold tags beside the divergence, in this stage.
        last_gold: the same weight in the last stage, which reads the corpora alone.
    """

    temperature: Positive = 2.0
    gold: Share = 0.3
    last_gold: Share = 0.5


class StudentRecipe(EntityRecipe):
    """The recipe of a student; `[training]` is the last stage."""

    soft: SoftStage = SoftStage()


@dataclass(frozen=True, eq=False)
class NumberedMaker(ExampleMaker):
    """Makes windows in which the code of a word is its row in tables of all words.

    `first_rows` has the row of the first word of each text, see `text_key`.
    """

    first_rows: dict[TextKey, int] = field(kw_only=True)

    def word_codes(
        self, text: TaggedText, codes: dict[str, int]
    ) -> np.ndarray:
        """The rows of a text's words, shape (words,)."""
        first_row = self.first_rows[text_key(text, codes)]
        return np.arange(first_row, first_row + len(text.words))


def text_key(text: TaggedText, codes: dict[str, int]) -> TextKey:
    """What tells training texts apart: words and tags, and which types `O` leaves open."""
    return text, codes.get(OUTSIDE)


class SoftTagObjective(TagObjective):
    """Divergence from the mean of the teachers' tags, and cross-entropy of the gold tags.

    The Kullback-Leibler divergence is over all words, the cross-entropy over tagged ones.

    Args:
        model: the student.
        corpora: their training texts are learned from; their devel sides choose the weights.
        recipe: see `StudentRecipe`; `[training]` is the stage of this objective.
        texts: others, whose tags are not read.
        teachers: models with the tags of the student.
        gold: weight of the cross-entropy.
    """

    def __init__(
        self,
        model: EntityTagger,
        corpora: Sequence[Corpus],
        recipe: StudentRecipe,
        *,
        texts: Sequence[TaggedText] = (),
        teachers: Sequence[EntityTagger],
        gold: float,
    ) -> None:
        super().__init__(model, corpora, recipe)
        self._teachers = teachers
        self._texts = texts
        self._temperature = recipe.soft.temperature
        self._gold = gold
        sources = [*self.sources.values(), Source(tuple(texts), {})]
        first_rows: dict[TextKey, int] = {}
        row_count = 0
        codes = []
        for source in sources:
            for text in source.texts:
                key = text_key(text, source.codes)
                if key not in first_rows:
                    first_rows[key] = row_count
                    row_count += len(text.words)
                    codes += [
                        source.codes.get(tag, IGNORED) for tag in text.tags
                    ]
        self._codes = torch.tensor(codes)
        self._text_words = [text.words for text, _ in first_rows]
        self._first_rows = np.array([*first_rows.values()])
        self._is_labelled = np.zeros(len(first_rows), dtype=bool)
        self._soft = torch.zeros(
            (row_count, len(model.labels)), dtype=torch.float16
        )
        training = recipe.training
        maker = NumberedMaker(
            sources,
            model.word_tokenizer,
            model.window,
            training.seed,
            first_rows=first_rows,
        )
        self.batches = FreshBatches(
            maker,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
        )

    def loss(self, network: PreTrainedModel, batch: Batch) -> torch.Tensor:
        """Mean divergence times the squared temperature, and the weighted cross-entropy."""
        logits = self.logits(network, batch)
        is_word = batch["codes"] != IGNORED
        rows = batch["codes"][is_word].to(self._soft.device)
        scores = logits[is_word].float() / self._temperature
        soft = self.soft_labels(rows).to(scores).div(self._temperature)
        divergence = torch.nn.functional.kl_div(
            scores.log_softmax(dim=-1),
            soft.log_softmax(dim=-1),
            reduction="batchmean",
            log_target=True,
        )
        loss = divergence * self._temperature**2
        codes = torch.full_like(batch["codes"], IGNORED)
        codes[is_word] = self._codes[rows].to(codes)
        if (codes != IGNORED).any():
            loss = loss + self._gold * self.cross_entropy(logits, codes)
        return loss

    def soft_labels(self, rows: torch.Tensor) -> torch.Tensor:
        """Log of the teachers' mean probabilities of words, shape (rows, tags), halves.

        The teachers read a text when a batch has it for the first time: a short training does not
        wait for all of the texts.
        """
        numbers = np.searchsorted(self._first_rows, rows.numpy(), "right") - 1
        new = np.unique(numbers[~self._is_labelled[numbers]])
        if new.size:
            texts = [self._text_words[number] for number in new]
            new_rows = [
                self._first_rows[number] + np.arange(len(words))
                for number, words in zip(new, texts, strict=True)
            ]
            self._soft[np.concatenate(new_rows)] = soft_labels(
                texts, self._teachers
            )
            self._is_labelled[new] = True
        return self._soft[rows]

    def facts(self) -> dict[str, object]:
        """The corpora, the texts without tags, the teachers and the weight of gold tags."""
        return {
            **super().facts(),
            "objective": "soft tags",
            "texts": fingerprint([text.words for text in self._texts]),
            "teachers": [teacher.fingerprint() for teacher in self._teachers],
            "gold": self._gold,
        }


def soft_labels(
    texts: Sequence[Sequence[str]], teachers: Sequence[EntityTagger]
) -> torch.Tensor:
    """Log of the teachers' mean probabilities, shape (words of all texts, tags), halves."""
    probabilities = []
    for teacher in teachers:
        pieces = map(teacher.word_tokenizer.tokenize, texts)
        scores = []
        for chunk in chunked(
            pieces, size=len, limit=teacher.runner.buffer_tokens
        ):
            scores += teacher.log_probabilities(chunk)
        probabilities.append(np.exp(np.concatenate(scores)))
    mean = np.maximum(np.mean(probabilities, axis=0), SMALLEST)
    return torch.from_numpy(np.log(mean).astype(np.float16))


def fit_student(
    corpora: Sequence[Corpus],
    recipe: StudentRecipe,
    *,
    texts: Sequence[TaggedText],
    teachers: Sequence[EntityTagger],
    checkpoints: Path | None = None,
    resume: bool = False,
) -> EntityTagger:
    """Train on all texts and then on the corpora; for the arguments see `SoftTagObjective`."""
    settings = EntitySettings(
        **recipe.model.model_dump(exclude={"encoder", "start"})
    )
    model = EntityTagger.untrained(
        recipe.model.encoder,
        training=recipe.training,
        settings=settings,
        labels=tags_for(entity_types(corpora)),
    )
    soft = recipe.soft.replaced(seed=recipe.training.seed)
    first = SoftTagObjective(
        model,
        corpora,
        recipe.replaced(training=soft),
        texts=texts,
        teachers=teachers,
        gold=soft.gold,
    )
    last = SoftTagObjective(
        model,
        corpora,
        recipe,
        teachers=teachers,
        gold=soft.last_gold,
    )
    trained = train(
        model,
        (first, soft),
        (last, recipe.training),
        start=recipe.model.start,
        checkpoints=checkpoints,
        resume=resume,
    )
    record(trained, last, corpora, recipe)
    trained.manifest.data.counts["texts with the teachers' tags alone"] = len(
        texts
    )
    return trained


def untagged_texts(data: Path) -> Iterator[TaggedText]:
    """PubMed's sentences, MedQuAD's answers and notes, without what models are measured on."""
    measured = measured_letters(data)
    craft = _craft_sentences(data)
    with gzip.open(data / PUBMED, "rt", encoding="utf-8") as lines:
        for line in lines:
            letters = only_letters(line)
            if letters and letters not in craft and letters not in measured:
                words = tuple(line.split())
                yield TaggedText(words, (OUTSIDE,) * len(words))
    paragraphs = dict.fromkeys([*_answers(data), *_note_paragraphs(data)])
    for paragraph in paragraphs:
        yield tagged(Document("", paragraph, ()))[0]


def _craft_sentences(data: Path) -> set[str]:
    """The letters of each sentence of CRAFT's articles, on which linking is measured."""
    with gzip.open(data / CRAFT, "rt", encoding="utf-8") as lines:
        articles = [json.loads(line)["text"] for line in lines]
    sentences = chain.from_iterable(map(split_sentences, articles))
    return set(map(only_letters, sentences))


def _answers(data: Path) -> Iterator[str]:
    with gzip.open(data / MEDQUAD, "rt", encoding="utf-8") as lines:
        for line in lines:
            for question in json.loads(line)["questions"]:
                yield from _paragraphs(question["answer"])


def _note_paragraphs(data: Path) -> Iterator[str]:
    for note in real_notes(data):
        yield from _paragraphs(note)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in PARAGRAPH_BREAK.split(text):
        stripped = paragraph.strip()
        if len(stripped) >= SHORTEST:
            yield stripped


@one_line_errors
def main(
    corpora: Corpora,
    data: Annotated[
        Path, typer.Option(help="The public data, with texts to read.")
    ],
    teacher: Annotated[
        list[str], typer.Option(help="A model; may be repeated.")
    ],
    recipe: RecipeFile,
    out: ModelFolder,
    seed: Seeds = None,
    average: Average = None,
    checkpoints: Checkpoints = None,
    resume: Resume = False,  # noqa: FBT002
) -> None:
    """Train a student with each seed, and keep the best or the average."""
    save_best(
        corpora,
        read_recipe(StudentRecipe, recipe),
        out,
        seeds=seed,
        average=average,
        checkpoints=checkpoints,
        resume=resume,
        trainer=partial(
            fit_student,
            texts=list(untagged_texts(data)),
            teachers=list(map(EntityTagger.from_pretrained, teacher)),
        ),
    )


if __name__ == "__main__":
    typer.run(main)
