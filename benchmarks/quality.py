"""How good the shipped models are on data that training never saw; fills the pages.

    python benchmarks/quality.py --page docs/lab/benchmarks.md --readme README.md
    python benchmarks/quality.py --biomed --page docs/lab/benchmarks.md --readme README.md
    python benchmarks/quality.py --precision 1000 --page docs/lab/benchmarks.md

Takes 10 minutes on two cores; with --biomed, seconds. The readmission models are measured here; the
baselines are fitted on the very stays that the model was trained on. Needs the public data sets
(../shared/data or $DOMAINBERT_DATA) for readmission-diabetes130; without them that model is left
out and no page is changed. The other models were measured by the commands that trained them (`make
models`); their tables are copied from their folders, and that is all that --biomed does.

How to read the tables: a column is a model, a row a measure with its 95% interval from resampling
patients. readmission-demo is also placed against the best AUROC to expect when outcomes are drawn
from the true risks; the gap to that should be at most 0.012.

--precision compares bfloat16 with float32 instead, on so many stays, a fifth as many sentences of
NCBI-disease, a twentieth as many questions, and as many pairs of terms. Where the processor has no
instructions for bfloat16, it is many times as slow: take 60.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TypeVar, get_args

import numpy as np
import pandas as pd
from measuring import say
from reporting import command_line, rates, write_section
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from biomed import EntityTagger, QuestionAnswerer, TermEmbedder
from biomed.corpora import read_gold
from biomed.ner.evaluation import compare_words, predicted_words
from biomed.qa.evaluation import token_f1
from biomed.qa.questions import evenly, read_questions
from biomed.sentences.data import read_pairs
from clinical import ReadmissionModel, build_cohort, synthesize
from clinical.demo import expected_ranking
from clinical.evaluation.comparison import MODEL, Comparison, compare
from clinical.evaluation.intervals import measure_rows
from domainbert.encoders.precision import Precision
from domainbert.models.card import table
from domainbert.models.manifest import Manifest, Scores, score_text
from domainbert.models.model import Model
from domainbert.models.pooling import unit
from domainbert.models.storage import read_manifest, shipped_models
from domainbert.statistics.calibration import calibration_error
from domainbert.tables import read_table
from recipes.diabetes130.encounters import build_diabetes130

if TYPE_CHECKING:
    from biomed.corpora.corpus import Gold

AnyModel = TypeVar("AnyModel", bound=Model)
Result = TypeVar("Result")
FRESH_SEED = 2027
FRESH_STAYS = 1000
DEMO = "readmission-demo"
DIABETES = "readmission-diabetes130"
# The sides of the card of `disease-drug`, and what the README calls them.
ENTITY_DATA = {
    "ncbi-disease test": "ncbi-disease test",
    "bc5cdr-chemical devel": "bc5cdr-chemical devel",
    "real-sections test": "200 sections of real notes (test)",
}
COLUMNS = ["model", "measured on", "measure", "score", "for comparison"]
# The two hospitals of the second run of readmission-demo; see its recipe.
TRAINING = (("hospital", 15_000, 1, False), ("more", 20_000, 6, True))

INTRODUCTION = (
    "Written by `python benchmarks/quality.py --page docs/lab/benchmarks.md`; 95% intervals "
    "from 1,000 bootstrap resamples of patients. The baselines were fitted on the stays the "
    "model was trained on.\n\n"
)


def made_up(work: Path) -> tuple[Comparison, tuple[float, float]]:
    """readmission-demo on a hospital that it has never seen; the AUROCs of `expected_ranking`."""
    parts = []
    for name, stays, seed, brief in TRAINING:
        say(f"writing {stays:,} stays of the training data again")
        synthesize(
            work / name,
            stays=stays,
            seed=seed,
            brief=brief,
        )
        rows = build_cohort(
            work / name,
            out=work / f"{name}.parquet",
        ).to_frame()
        sides = ["train"] if brief else ["train", "val"]
        parts.append(rows[rows["split"].isin(sides)])
    synthesize(
        work / "fresh",
        stays=FRESH_STAYS,
        seed=FRESH_SEED,
    )
    fresh = build_cohort(work / "fresh", out=work / "fresh.parquet").to_frame()
    parts.append(fresh[fresh["exclusion"].isna()].assign(split="test"))
    model = ReadmissionModel.from_pretrained(DEMO)
    comparison = compare(model, pd.concat(parts))
    truth = read_table(
        work / "fresh" / "TRUE_RISK.csv",
        schema={"TRUE_RISK": "float"},
    )
    return comparison, expected_ranking(comparison.stays, truth)


def metrics_table(comparison: Comparison) -> str:
    """Markdown: measures down, model and baselines across."""
    head, *rows = measure_rows(comparison.evaluations)
    head[head.index(MODEL)] = f"**{MODEL}**"
    return table(head, rows)


def trained_tables() -> str:
    """The tables of biomed's models, as their training wrote them."""
    parts = []
    for name, folder in shipped_models("biomed").items():
        scores = scores_of(folder)
        head, *rows = scores.rows()
        parts.append(f"`{name}`. {scores.note}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def risk_rows(
    comparisons: dict[str, Comparison],
    best: float,
    expected: float,
) -> list[list[str]]:
    """The main measures of the readmission models, each beside that of TF-IDF."""
    rows = []
    for name, comparison in comparisons.items():
        hospital = "US hospitals, of patients kept for testing"
        note = ""
        if name == DEMO:
            hospital = "a made-up hospital"
            note = f"; by the true risks {expected:.3f}, best {best:.3f}"
        n_stays = len(comparison.stays)
        data = f"30-day readmission, {n_stays} stays of {hospital}"
        auroc = score_text(comparison.evaluations[MODEL].auroc)
        baseline = score_text(comparison.evaluations["TF-IDF"].auroc)
        beside = f"TF-IDF {baseline}{note}"
        rows.append([f"`{name}`", data, "AUROC", auroc, beside])
    return rows


def written_rows(page: Path) -> list[list[str]]:
    """The rows of the readmission models, as they are on the page."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`readmission-.*) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def headline(rows: list[list[str]]) -> str:
    """Markdown: these rows, and the main measures of biomed's models beside the alternative."""
    models = {
        name: scores_of(folder).table
        for name, folder in shipped_models("biomed").items()
    }
    rows = list(rows)
    for side, data in ENTITY_DATA.items():
        f1 = score_text(models["disease-drug"]["f1"][side])
        rows.append(["`disease-drug`", data, "entity F1", f1, ""])
    for data, value in models["qa"]["F1"].items():
        rows.append(["`qa`", data, "F1", score_text(value), ""])
    plain = models["terms"]["plain encoder"]
    for data, value in models["terms"]["this model"].items():
        if "physicians" in data:
            beside = f"plain encoder {score_text(plain[data])}"
            row = ["`terms`", data, "Spearman", score_text(value), beside]
            rows.append(row)
    alone = models["rerank"]["meaning"]
    for data, value in models["rerank"]["meaning, reranked"].items():
        if "MRR" in data and "MedQuAD" in data:
            beside = f"by meaning alone {score_text(alone[data])}"
            row = ["`rerank`", data, "MRR@10", score_text(value), beside]
            rows.append(row)
    return table(COLUMNS, rows)


def scores_of(folder: Path) -> Scores:
    """The measures of a shipped model."""
    return read_manifest(folder, Manifest).scores


def demo_text(
    comparison: Comparison,
    best: float,
    expected: float,
) -> str:
    """Markdown: how good readmission-demo is."""
    return (
        f"`{DEMO}`, {len(comparison.stays)} stays of a new made-up "
        f"hospital (seed {FRESH_SEED}). With outcomes drawn from the true risks, an AUROC of "
        f"{best:.3f} is the best to expect and {expected:.3f} is expected of the model, a gap of "
        f"**{best - expected:.3f}** (the goal was at most 0.012). On the outcomes that were drawn:"
        f"\n\n{metrics_table(comparison)}\n\n"
    )


def diabetes_text(comparison: Comparison) -> str:
    """Markdown: how good readmission-diabetes130 is."""
    stays = comparison.stays
    return (
        f"`{DIABETES}`, {len(stays)} real stays of {stays['patient_id'].nunique()} held-out "
        f"patients:\n\n{metrics_table(comparison)}"
    )


def measure_readmission(page: Path | None, readme: Path | None) -> None:
    """Measure both models, print their tables, and write them into the pages."""
    data = Path(os.environ.get("DOMAINBERT_DATA", "../shared/data"))
    has_data = (data / "readmission").is_dir()
    if not has_data:
        say(
            f"left out: {DIABETES}, because {data} has no folder readmission (set DOMAINBERT_DATA)."
            " --page and --readme are left as they are"
        )
        page = None
        readme = None
    with tempfile.TemporaryDirectory() as work:
        fresh, (best, expected) = made_up(Path(work))
    comparisons = {DEMO: fresh}
    text = INTRODUCTION + demo_text(fresh, best, expected)
    if has_data:
        say(DIABETES)
        cohort = build_diabetes130(data / "readmission")
        model = ReadmissionModel.from_pretrained(DIABETES)
        comparisons[DIABETES] = compare(model, cohort)
        text += diabetes_text(comparisons[DIABETES])
    print(text)
    if page:
        write_section(page, "quality", text)
        write_section(page, "biomed", trained_tables())
    if readme:
        rows = risk_rows(comparisons, best, expected)
        write_section(readme, "headline", headline(rows))


PRECISIONS = get_args(Precision)


def processor() -> str:
    """The name of this machine's processor, and which instructions for bfloat16 it has."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", text)
    flags = [flag for flag in ("amx_bf16", "avx512_bf16") if flag in text]
    shown = "an unknown processor"
    if name:
        shown = name[1]
    return (
        f"{shown} ({', '.join(flags) or 'without instructions for bfloat16'})"
    )


def in_both(model_class: type[AnyModel], name: str) -> list[AnyModel]:
    """A shipped model in both precisions."""
    say(name)
    return [
        model_class.from_pretrained(name, dtype=dtype) for dtype in PRECISIONS
    ]


def in_turn(
    ways: Sequence[Callable[[], Result]],
) -> tuple[list[Result], list[float]]:
    """The results of both precisions, and their seconds of processor time."""
    results = []
    seconds = []
    for way in ways:
        start = time.process_time()
        results.append(way())
        seconds.append(time.process_time() - start)
    return results, seconds


def pair_of(values: Iterable[float], digits: str) -> list[str]:
    """The cells of a row with a number for each precision."""
    return [format(value, digits) for value in values]


def speed_row(
    what: str, unit: str, number: int, seconds: Sequence[float]
) -> list[str]:
    """The row with how many of a unit each precision reads in a second."""
    speeds = pair_of(rates(number, seconds), ".1f")
    return [what, f"{unit} a second of processor time", *speeds]


def risks_by_precision(work: Path, stays: int) -> Iterator[list[str]]:
    """Rows of readmission-demo on short notes of a made-up hospital."""
    synthesize(work / "brief", stays=stays, seed=FRESH_SEED, brief=True)
    cohort = build_cohort(work / "brief", out=work / "brief.parquet")
    stay_rows = cohort.to_frame()
    stay_rows = stay_rows[stay_rows["exclusion"].isna()]
    readmitted = stay_rows["readmitted"].astype(int).to_numpy()
    notes = [list(texts) for texts in stay_rows["text"]]

    def score(model: ReadmissionModel) -> np.ndarray:
        results = model.predict_many(notes)
        return np.array([result.probability for result in results])

    models = in_both(ReadmissionModel, DEMO)
    risks, seconds = in_turn([partial(score, model) for model in models])
    what = f"`{DEMO}`, {len(notes)} stays with short notes"
    yield speed_row(what, "stays", len(notes), seconds)
    changes = np.abs(risks[1] - risks[0])
    shown = f"{changes.max():.4f}, {changes.mean():.4f}"
    yield [what, "change of the probability, largest and mean", "", shown]
    aurocs = [roc_auc_score(readmitted, risk) for risk in risks]
    yield [what, "AUROC", *pair_of(aurocs, ".4f")]
    errors = [calibration_error(readmitted, risk) for risk in risks]
    yield [what, "calibration error", *pair_of(errors, ".4f")]
    threshold = models[0].settings.alert_threshold or 1.0
    alerts = [risk >= threshold for risk in risks]
    changed = 1000 * np.mean(alerts[0] != alerts[1])
    yield [what, "decisions that change, of 1,000", "", f"{changed:.0f}"]


def entities_by_precision(gold: Gold) -> Iterator[list[str]]:
    """Rows of disease-drug on sentences of NCBI-disease."""
    taggers = in_both(EntityTagger, "disease-drug")
    ways = [partial(predicted_words, tagger, gold) for tagger in taggers]
    predicted, seconds = in_turn(ways)
    number = len(gold.texts)
    what = f"`disease-drug`, {number} sentences of NCBI-disease (devel)"
    yield speed_row(what, "sentences", number, seconds)
    types = set(gold.types) & set(taggers[0].types)
    f1s = [
        compare_words(gold.texts, spans, types=types).overall["f1"]
        for spans in predicted
    ]
    yield [what, "F1", *pair_of(f1s, ".4f")]
    exact, fast = (
        {
            (number, span)
            for number, spans in enumerate(texts)
            for span in spans
        }
        for texts in predicted
    )
    same = f"{len(exact & fast)} of {len(exact)}"
    yield [what, "the same entities", "", same]


def answers_by_precision(file: Path, number: int) -> Iterator[list[str]]:
    """Rows of qa on paragraphs of SQuAD."""
    questions = list(evenly(read_questions(file), number))

    def ask(model: QuestionAnswerer) -> list[str]:
        ranked = [model.answer(q.text, q.context) for q in questions]
        return [answers[0].text if answers else "" for answers in ranked]

    models = in_both(QuestionAnswerer, "qa")
    texts, seconds = in_turn([partial(ask, model) for model in models])
    number = len(questions)
    what = f"`qa`, {number} questions on paragraphs of SQuAD"
    yield speed_row(what, "answers", number, seconds)
    gold = [question.answers for question in questions]
    f1s = [fmean(map(token_f1, answers, gold)) for answers in texts]
    yield [what, "F1", *pair_of(f1s, ".4f")]
    same = sum(map(str.__eq__, *texts))
    yield [what, "the same answers", "", f"{same} of {number}"]


def terms_by_precision(pairs: pd.DataFrame) -> Iterator[list[str]]:
    """Rows of terms on pairs that physicians rated."""

    def similarities(model: TermEmbedder) -> np.ndarray:
        sides = [
            model.embed(list(pairs[name])) for name in ("first", "second")
        ]
        return np.einsum("ij,ij->i", *map(unit, sides))

    models = in_both(TermEmbedder, "terms")
    cosines, seconds = in_turn([partial(similarities, m) for m in models])
    number = len(pairs)
    what = f"`terms`, {number} pairs of UMNSRS"
    yield speed_row(what, "pairs", number, seconds)
    ratings = pairs["label"].astype(float)
    correlations = [spearmanr(ratings, values).statistic for values in cosines]
    yield [what, "Spearman", *pair_of(correlations, ".4f")]
    change = np.abs(cosines[1] - cosines[0]).max()
    yield [what, "largest change of a similarity", "", f"{change:.4f}"]


def precision_text(stays: int) -> str:
    """Markdown: what bfloat16 costs and gains on this machine."""
    data = Path(os.environ.get("DOMAINBERT_DATA", "../shared/data"))
    gold = read_gold(data / "ner" / "ncbi-disease" / "devel.tsv")
    gold = replace(gold, texts=gold.texts[: max(2, stays // 5)])
    pairs = read_pairs(data / "terms" / "umnsrs_similarity_half.csv")
    with tempfile.TemporaryDirectory() as work:
        rows = list(risks_by_precision(Path(work), stays))
    rows += entities_by_precision(gold)
    squad = data / "qa" / "squad_v1.1_dev.json"
    rows += answers_by_precision(squad, max(2, stays // 20))
    rows += terms_by_precision(pairs.head(stays))
    return (
        f"Written by `python benchmarks/quality.py --precision {stays} --page "
        f"docs/lab/benchmarks.md` on {processor()}. The numbers are of these texts only: "
        "with so few, F1 and AUROC say only whether the two precisions agree.\n\n"
        + table(["model and texts", "measure", *PRECISIONS], rows)
    )


def main() -> None:
    """Measure the models of readmission and copy the measures of the others."""
    parser = command_line(__doc__)
    parser.add_argument(
        "--page",
        type=Path,
        help="file whose section `quality` is replaced",
    )
    parser.add_argument(
        "--readme",
        type=Path,
        help="file whose section `headline` is replaced",
    )
    parser.add_argument(
        "--biomed",
        action="store_true",
        help="only take over biomed's tables; the rows of readmission stay",
    )
    parser.add_argument(
        "--precision",
        type=int,
        metavar="STAYS",
        help="compare bfloat16 with float32, and replace the section `precision`",
    )
    asked = parser.parse_args()
    if asked.precision:
        text = precision_text(asked.precision)
        print(text)
        if asked.page:
            write_section(asked.page, "precision", text)
        return
    if not asked.biomed:
        measure_readmission(asked.page, asked.readme)
        return
    if asked.page:
        write_section(asked.page, "biomed", trained_tables())
    if asked.readme:
        rows = written_rows(asked.readme)
        write_section(asked.readme, "headline", headline(rows))


if __name__ == "__main__":
    main()
