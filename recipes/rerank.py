"""A reranker: which passage answers a question, both read together. It is not shipped.

    python -m recipes.rerank ../shared/data --out MODEL

Training starts from the adapters of `qa`, which has learned to read a question beside a text; the
general encoder has not. MedQuAD's topics are split by a hash: a tenth is measured on and a tenth
chooses the weights. Half of PubMedQA's questions are measured on, and none is trained on.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

from biomed.corpora.formats import read_pubtator
from biomed.qa.model import AnswerModel
from biomed.sentences.encoder import CrossEncoder, SentenceEncoder
from biomed.sentences.evaluation import evaluate_retrieval
from biomed.sentences.training import SentenceRecipe, train_from_recipe
from domainbert.cli import options
from domainbert.cli.console import one_line_errors, say
from domainbert.encoders.lora import add_lora, set_adapter, trained_adapter
from domainbert.models.pooling import unit
from domainbert.training.checkpoints import training_run
from domainbert.training.recipes import read_recipe, recipe_file
from recipes.relations import concept_key, medquad_documents, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LONGEST = 1000  # characters of a passage that is trained on: a passage of an index has 254 tokens
MEDQUAD, SQUAD, TITLES = 4000, 2000, 1000  # questions of each source that are trained on
ANSWERS = 6  # of a topic of MedQuAD at most
NEAREST = 20  # passages from which one that looks right is drawn
QUESTIONS = 300  # of MedQuAD that are measured on
MEASURED, CHOOSING = 0, 1  # what the hash of a topic leaves when divided by 10
ABSTRACTS = ("bc5cdr-ids/train", "bc5cdr-ids/devel", "ncbi-disease-ids/train", "biored/train")
START = "qa"

Pair = tuple[str, str, str]  # question, passage that answers it, what both are about


def medquad(data: Path) -> dict[int, list[Pair]]:
    """Questions of MedQuAD with their answers, by what the hash of their topic leaves."""
    found: dict[int, list[Pair]] = defaultdict(list)
    chooser = random.Random(0)  # noqa: S311  (no secret)
    seen: set[str] = set()
    for document in medquad_documents(data / "text/medquad.jsonl.gz"):
        key = concept_key(document)
        answers = {
            spaced(each["question"]): spaced(each["answer"])
            for each in document["questions"]
            if len(each["answer"]) > 80 and each["answer"] not in seen
        }
        seen |= set(answers.values())
        chosen = chooser.sample(sorted(answers), min(len(answers), ANSWERS))
        found[_side(key)] += [(question, answers[question], key) for question in chosen]
    return found


def _side(key: str) -> int:
    return int(sha256(key.encode()).hexdigest(), 16) % 10


def squad(data: Path) -> list[Pair]:
    """Questions of SQuAD with their paragraphs; another paragraph of the article is a negative."""
    articles = json.loads((data / "qa/squad_v1.1_dev.json").read_text("utf-8"))["data"]
    return [
        (question["question"].strip(), part["context"], article["title"])
        for article in articles
        for part in article["paragraphs"]
        for question in part["qas"]
    ]


def titles(data: Path) -> list[Pair]:
    """Titles of abstracts with the abstracts."""
    found = {}
    for name in ABSTRACTS:
        for document in read_pubtator(data / "ner" / f"{name}.pubtator"):
            title, _, abstract = document.text.partition("\n")
            title, abstract = (title, abstract) if abstract else _cut(document.text)
            if len(abstract) > 200:
                found[title] = (title, abstract, title)
    return list(found.values())


def _cut(text: str) -> tuple[str, str]:
    title, _, rest = text.partition(". ")
    return f"{title}.", rest


def pubmedqa(data: Path) -> pd.DataFrame:
    """The questions of PubMedQA with their abstracts."""
    rows = json.loads((data / "qa/pubmedqa_labeled.json").read_text("utf-8")).values()
    pairs = [(row["QUESTION"], " ".join(row["CONTEXTS"])) for row in rows]
    return pd.DataFrame(pairs, columns=["first", "second"])


def triplets(pairs: Sequence[Pair], encoder: SentenceEncoder, *, seed: int) -> pd.DataFrame:
    """A row for each question: `first, second, negative`.

    The negative of half of the questions is another passage about the same, if there is one; the
    others have one of another topic that looks right to the encoder.
    """
    chooser = random.Random(seed)  # noqa: S311  (no secret)
    passages = [passage[:LONGEST] for _, passage, _ in pairs]
    same: dict[str, list[int]] = defaultdict(list)
    for number, (*_, key) in enumerate(pairs):
        same[key].append(number)
    vectors = unit(encoder.embed(passages))
    queries = unit(encoder.embed([question for question, *_ in pairs]))
    rows = []
    for number, (question, _, key) in enumerate(pairs):
        ranked = (-(vectors @ queries[number])).argsort()[:NEAREST]
        near = [i for i in ranked if passages[i] != passages[number]]
        other = [i for i in near if pairs[i][2] != key] or near
        beside = [i for i in same[key] if passages[i] != passages[number]]
        pool = beside if beside and chooser.random() < 0.5 else other
        rows.append((question, passages[number], passages[chooser.choice(pool)]))
    return pd.DataFrame(rows, columns=["first", "second", "negative"])


def started(recipe: SentenceRecipe, folder: Path) -> str:
    """A cross-encoder with the adapters of `START` and a new head, in `folder`."""
    plan, training = recipe.model, recipe.training
    model = CrossEncoder.untrained(plan.encoder, training=training, labels=("score",))
    network = add_lora(model.network, training.rank)
    adapter = AnswerModel.from_pretrained(START, device="cpu").adapter
    lora = {name: value for name, value in adapter.tensors.items() if ".lora_" in name}
    set_adapter(network, trained_adapter(network, encoder=plan.encoder).tensors | lora)
    model.finished(network, encoder=plan.encoder, full=False).save_pretrained(folder)
    return str(folder)


def measured(data: Path, held_out: Iterable[Pair]) -> dict[str, pd.DataFrame]:
    """The questions that are measured on, each with all passages to choose from."""
    questions = random.Random(0).sample(sorted(held_out), QUESTIONS)  # noqa: S311  (no secret)
    return {
        "MedQuAD": pd.DataFrame([row[:2] for row in questions], columns=["first", "second"]),
        "PubMedQA": pubmedqa(data).iloc[::2].reset_index(drop=True),
    }


def measure(model: CrossEncoder | None, sets: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """MRR@10 and recall@1 by search alone and reranked, a row of the card for each set."""
    encoder = SentenceEncoder.from_pretrained("all-MiniLM-L6-v2")
    return {
        f"{name}, {len(pairs)} questions, {way}": {
            measure: asdict(found.scores[measure]) for measure in ("MRR@10", "recall@1")
        }
        for name, pairs in sets.items()
        for way, found in evaluate_retrieval(encoder, pairs, rerank=model, candidates=30).items()
    }


@one_line_errors
def main(
    data: Annotated[Path, typer.Argument(help="Folder of the public data sets.")],
    *,
    out: options.ModelFolder,
    recipe: options.RecipeFile = None,
    checkpoints: options.Checkpoints = None,
    resume: options.Resume = False,
) -> None:
    """Train the model by recipes/rerank.toml, measure it, and write the model folder."""
    plan = read_recipe(SentenceRecipe, recipe or recipe_file("rerank"))
    encoder = SentenceEncoder.from_pretrained(plan.model.encoder)
    sides, chooser = medquad(data), random.Random(plan.training.seed)  # noqa: S311  (no secret)
    known = [pair for side, pairs in sorted(sides.items()) if side > CHOOSING for pair in pairs]
    sources = (known, MEDQUAD), (squad(data), SQUAD), (titles(data), TITLES)
    drawn = [chooser.sample(pairs, number) for pairs, number in sources]
    rows = pd.concat([triplets(pairs, encoder, seed=0) for pairs in drawn], ignore_index=True)
    choosing = triplets(sides[CHOOSING][:400], encoder, seed=1)
    with TemporaryDirectory() as work, training_run(out, checkpoints, resume=resume) as run:
        start = started(plan, Path(work) / START)
        plan = plan.replaced(model=plan.model.replaced(start=start))
        place = {"checkpoints": run.checkpoints, "resume": resume}
        trained = train_from_recipe(plan, rows, choosing, **place)
        trained.manifest["start"] = START
        trained.manifest["scores"] = measure(trained, measured(data, sides[MEASURED]))
        trained.manifest["scores_note"] = (
            "Questions that training and the choice of weights never saw; the 30 best passages of "
            "the general encoder are reranked. 95% intervals from 1,000 resamples of questions."
        )
        run.save(trained)
    say(f"model in {out}; its card says how it was made and how good it is")


if __name__ == "__main__":
    typer.run(main)
