"""How good the shipped models are on data that training never saw; fills the pages.

    PYTHONPATH=. python benchmarks/quality.py --page docs/lab/benchmarks.md --readme README.md

The readmission models are measured here; the baselines are fitted on the very stays that the model
was trained on. Needs the public data sets (../shared/data or $DOMAINBERT_DATA) for
readmission-diabetes130; takes about ten minutes. The other models were measured by the commands
that trained them (`make models`); their tables are copied from their folders.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

import pandas as pd

from clinical import ReadmissionModel, build_cohort, synthesize
from clinical.demo import expected_ranking
from clinical.evaluation.comparison import MODEL, Comparison, compare
from clinical.evaluation.intervals import measure_rows
from domainbert.models.card import table
from domainbert.models.manifest import Manifest, Scores, score_text
from domainbert.models.storage import read_manifest, shipped_models
from domainbert.tables import read_table
from recipes.diabetes130.encounters import build_diabetes130

FRESH_SEED = 2027
FRESH_STAYS = 1000
NOTES = "real-sections test"
# The two hospitals of the second run of readmission-demo; see its recipe.
TRAINING = (("hospital", 15_000, 1, False), ("more", 20_000, 6, True))


def made_up(work: Path) -> tuple[Comparison, tuple[float, float]]:
    """readmission-demo on a hospital that it has never seen; the AUROCs of `expected_ranking`."""
    parts = []
    for name, stays, seed, brief in TRAINING:
        synthesize(work / name, stays=stays, seed=seed, brief=brief)
        rows = build_cohort(
            work / name, out=work / f"{name}.parquet"
        ).to_frame()
        sides = ["train"] if brief else ["train", "val"]
        parts.append(rows[rows["split"].isin(sides)])
    synthesize(work / "fresh", stays=FRESH_STAYS, seed=FRESH_SEED)
    fresh = build_cohort(work / "fresh", out=work / "fresh.parquet").to_frame()
    parts.append(fresh[fresh["exclusion"].isna()].assign(split="test"))
    comparison = compare(
        ReadmissionModel.from_pretrained("readmission-demo"), pd.concat(parts)
    )
    truth = read_table(
        work / "fresh" / "TRUE_RISK.csv", schema={"TRUE_RISK": "float"}
    )
    return comparison, expected_ranking(comparison.stays, truth)


def metrics_table(comparison: Comparison) -> str:
    """Markdown: measures down, model and baselines across."""
    head, *rows = measure_rows(comparison.evaluations)
    return table(
        [f"**{name}**" if name == MODEL else name for name in head], rows
    )


def trained_tables() -> str:
    """The tables of biomed's models, as their training wrote them."""
    parts = []
    for name, folder in shipped_models("biomed").items():
        scores = scores_of(folder)
        head, *rows = scores.rows()
        parts.append(f"`{name}`. {scores.note}\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def risk_rows(
    comparisons: dict[str, Comparison], best: float, expected: float
) -> list[list[str]]:
    """The main scores of the readmission models, each beside that of TF-IDF."""
    rows = []
    for name, comparison in comparisons.items():
        scores = {
            key: score_text(evaluation.auroc)
            for key, evaluation in comparison.evaluations.items()
        }
        is_demo = name == "readmission-demo"
        where = (
            "a made-up hospital"
            if is_demo
            else "US hospitals, of patients kept for testing"
        )
        data = f"30-day readmission, {len(comparison.stays)} stays of {where}"
        note = (
            f"; by the true risks {expected:.3f}, best {best:.3f}"
            if is_demo
            else ""
        )
        rows.append(
            [
                f"`{name}`",
                data,
                "AUROC",
                scores[MODEL],
                f"TF-IDF {scores['TF-IDF']}{note}",
            ]
        )
    return rows


def written_rows(page: Path) -> list[list[str]]:
    """The rows of the readmission models, as they are on the page."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`readmission-.*) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def headline(rows: list[list[str]]) -> str:
    """Markdown: these rows, and the main scores of biomed's models beside the alternative."""
    models = {
        name: scores_of(folder).table
        for name, folder in shipped_models("biomed").items()
    }
    rows = list(rows)
    for side, data in (
        ("ncbi-disease test", ""),
        ("bc5cdr-chemical devel", ""),
        (NOTES, "200 sections of real notes (test)"),
    ):
        score = score_text(models["disease-drug"]["f1"][side])
        rows.append(["`disease-drug`", data or side, "entity F1", score, ""])
    for data, score in models["qa"]["F1"].items():
        rows.append(["`qa`", data, "F1", score_text(score), ""])
    for data, score in models["terms"]["this model"].items():
        if "physicians" in data:
            plain = f"plain encoder {score_text(models['terms']['plain encoder'][data])}"
            rows.append(
                ["`terms`", data, "Spearman", score_text(score), plain]
            )
    reranked = models["rerank"]["meaning, reranked"]
    for data, score in reranked.items():
        if "MRR" in data and "MedQuAD" in data:
            alone = score_text(models["rerank"]["meaning"][data])
            rows.append(
                [
                    "`rerank`",
                    data,
                    "MRR@10",
                    score_text(score),
                    f"by meaning alone {alone}",
                ]
            )
    return table(
        ["model", "measured on", "measure", "score", "for comparison"], rows
    )


def scores_of(folder: Path) -> Scores:
    """How a shipped model scored."""
    return read_manifest(folder, Manifest).scores


def write_section(page: Path, section: str, text: str) -> None:
    """Replace the text between `<!-- section -->` and `<!-- /section -->`."""
    text_of_page = re.sub(
        rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)",
        lambda match: f"{match[1]}{text}\n{match[2]}",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    page.write_text(text_of_page, encoding="utf-8")


def main() -> None:
    """Measure both models and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--page", type=Path, help="file whose section `quality` is replaced"
    )
    parser.add_argument(
        "--readme", type=Path, help="file whose section `headline` is replaced"
    )
    parser.add_argument(
        "--biomed",
        action="store_true",
        help="only take over biomed's tables; the rows of readmission stay",
    )
    options = parser.parse_args()
    if options.page:
        write_section(options.page, "biomed", trained_tables())
    if options.biomed and options.readme:
        rows = written_rows(options.readme)
        write_section(options.readme, "headline", headline(rows))
    if options.biomed:
        return
    data = Path(os.environ.get("DOMAINBERT_DATA", "../shared/data"))
    with tempfile.TemporaryDirectory() as work:
        fresh, (best, expected) = made_up(Path(work))
    text = (
        "Written by `python benchmarks/quality.py --page docs/lab/benchmarks.md`; 95% intervals "
        "from 1,000 bootstrap resamples of patients. The baselines were fitted on the stays the "
        f"model was trained on.\n\n`readmission-demo`, {len(fresh.stays)} stays of a new made-up "
        f"hospital (seed {FRESH_SEED}). With outcomes drawn from the true risks, an AUROC of "
        f"{best:.3f} is the best to expect and {expected:.3f} is expected of the model, a gap of "
        f"**{best - expected:.3f}** (the goal was at most 0.012). On the outcomes that were drawn:"
        "\n\n"
        f"{metrics_table(fresh)}\n\n"
    )
    comparisons = {"readmission-demo": fresh}
    if (data / "readmission").is_dir():
        cohort = build_diabetes130(data / "readmission")
        real = compare(
            ReadmissionModel.from_pretrained("readmission-diabetes130"), cohort
        )
        patients = real.stays["patient_id"].nunique()
        comparisons["readmission-diabetes130"] = real
        text += (
            f"`readmission-diabetes130`, {len(real.stays)} real stays of {patients} held-out "
            f"patients:\n\n{metrics_table(real)}"
        )
    sys.stdout.write(text + "\n")
    if options.page:
        write_section(options.page, "quality", text)
    if options.readme:
        rows = risk_rows(comparisons, best, expected)
        write_section(options.readme, "headline", headline(rows))


if __name__ == "__main__":
    main()
