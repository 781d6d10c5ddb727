"""Inference in bfloat16: close to float32, never mixed with it, never saved."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from biomed import (
    CrossEncoder,
    EntityTagger,
    QuestionAnswerer,
    TermEmbedder,
)
from clinical import ReadmissionModel
from clinical.risk.task import ReadmissionTask
from domainbert.encoders.precision import multiplication_rates
from domainbert.errors import UserError

NOTE = (
    "71M with decompensated heart failure, admitted for the third time this year. No chest pain. "
    "He lives alone and stopped his furosemide because he could not afford it. "
)
CONTEXT = "The trial enrolled 240 adults. Mortality was 12% with metformin."

pytestmark = [pytest.mark.encoder, pytest.mark.numeric]


def in_both(model_class, *name):
    """A shipped model in both precisions."""
    return [
        model_class.from_pretrained(*name, dtype=dtype)
        for dtype in ("float32", torch.bfloat16)
    ]


def test_risks_are_within_a_hundredth_and_have_another_fingerprint():
    exact, fast = in_both(ReadmissionModel, "readmission-demo")
    for note in (NOTE, NOTE * 30):
        wanted = exact.predict(note).probability
        assert abs(fast.predict(note).probability - wanted) <= 0.01
        parts = [fast.explain(note).raising, exact.explain(note).raising]
        assert np.isfinite(
            [p.probability_contribution for part in parts for p in part]
        ).all()
    assert exact.fingerprint() != fast.fingerprint()
    assert (exact.precision, fast.precision) == ("float32", "bfloat16")


def test_heads_stay_in_float32():
    _, fast = in_both(ReadmissionModel, "readmission-demo")
    dtypes = {
        name: tensor.dtype for name, tensor in fast.network.named_parameters()
    }
    heads = {
        name for name in dtypes if "classifier" in name or "pooler" in name
    }
    assert heads
    for name, dtype in dtypes.items():
        assert dtype == (torch.float32 if name in heads else torch.bfloat16)


def test_entities_answers_and_similarities_are_close():
    exact, fast = in_both(EntityTagger)
    assert [e.text for e in fast.tag(NOTE)] == [
        e.text for e in exact.tag(NOTE)
    ]
    exact, fast = in_both(QuestionAnswerer, "qa")
    question = "How many adults were enrolled?"
    answers = [m.answer(question, CONTEXT) for m in (exact, fast)]
    assert answers[0][0].text == answers[1][0].text
    exact, fast = in_both(TermEmbedder)
    terms = ("heart failure", "cardiomyopathy")
    assert abs(fast.similarity(*terms) - exact.similarity(*terms)) <= 0.02
    assert fast.embed(list(terms)).dtype == np.float32
    exact, fast = in_both(CrossEncoder, "rerank")
    pairs = [("chest pain", NOTE), ("weather", NOTE)]
    results = zip(
        fast.predict_many(pairs), exact.predict_many(pairs), strict=True
    )
    for near, wanted in results:
        assert abs(near.score - wanted.score) <= 0.05


def test_cast_weights_are_not_saved(tmp_path):
    model = ReadmissionModel.from_pretrained(
        "readmission-demo", dtype="bfloat16"
    )
    with pytest.raises(UserError, match='dtype="float32" to save them'):
        model.save_pretrained(tmp_path / "m", merged=True)
    model.save_pretrained(tmp_path / "adapter")  # the adapter was not cast
    again = ReadmissionModel.from_pretrained(tmp_path / "adapter")
    exact = ReadmissionModel.from_pretrained("readmission-demo")
    assert again.fingerprint() == exact.fingerprint()


def test_another_type_is_one_line():
    with pytest.raises(UserError, match="unknown dtype 'float16'"):
        ReadmissionModel.from_pretrained("readmission-demo", dtype="float16")


def test_the_rates_of_both_precisions_are_measured():
    rates = multiplication_rates(0.02)
    assert set(rates) == {"float32", "bfloat16"}
    assert min(rates.values()) > 0


def test_a_killed_run_is_not_resumed_in_another_precision():
    exact, fast = in_both(ReadmissionModel, "readmission-demo")
    assert ReadmissionTask(exact).facts != ReadmissionTask(fast).facts


def test_the_option_of_the_commands_changes_the_precision(tmp_path):
    notes = tmp_path / "notes.csv"
    row = {"stay_id": 1, "category": "Discharge summary", "text": NOTE}
    pd.DataFrame([row]).to_csv(notes, index=False)
    probabilities = []
    for precision in ("float32", "bfloat16"):
        out = tmp_path / f"{precision}.csv"
        command = [
            sys.executable,
            "-c",
            "from clinical.cli import app; app()",
            "score",
            str(notes),
        ]
        command += ["--model", "readmission-demo", "--out", str(out)]
        subprocess.run([*command, "--precision", precision], check=True)
        probabilities.append(pd.read_csv(out)["probability"][0])
    assert probabilities[0] != probabilities[1]
    assert abs(probabilities[0] - probabilities[1]) <= 0.01
