"""Inference in bfloat16: close to float32, never mixed with it, never saved."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from biomed import (
    CrossEncoder,
    EntityTagger,
    QuestionAnswerer,
    TermEmbedder,
)
from clinical import ReadmissionModel
from clinical.cli import app
from clinical.risk.task import ReadmissionTask
from domainbert.encoders.precision import (
    long_run_hint,
    multiplication_rates,
    precision_advice,
)
from domainbert.errors import UserError
from domainbert.scoring import score_frame

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


@pytest.fixture(scope="module")
def risk_models():
    return in_both(ReadmissionModel, "readmission-demo")


@pytest.fixture(scope="module")
def exact_probability(risk_models):
    return risk_models[0].predict(NOTE).probability


def test_risks_are_within_a_hundredth_and_have_another_fingerprint(
    risk_models,
):
    exact, fast = risk_models
    assert (exact.precision, fast.precision) == ("float32", "bfloat16")
    assert exact.fingerprint() != fast.fingerprint()
    long = NOTE * 14  # two windows
    risks = [model.predict(long) for model in risk_models]
    assert risks[0].coverage.windows == 2
    assert abs(risks[0].probability - risks[1].probability) <= 0.01
    passages = fast.explain(NOTE).raising
    assert passages
    assert np.isfinite([p.probability_contribution for p in passages]).all()


def test_heads_stay_in_float32(risk_models):
    _, fast = risk_models
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


def test_cast_weights_are_not_saved(risk_models, tmp_path):
    exact, fast = risk_models
    with pytest.raises(UserError, match='dtype="float32" to save them'):
        fast.save_pretrained(tmp_path / "m", merged=True)
    fast.save_pretrained(tmp_path / "adapter")  # the adapter was not cast
    again = ReadmissionModel.from_pretrained(tmp_path / "adapter")
    assert again.fingerprint() == exact.fingerprint()


def test_another_type_is_one_line():
    with pytest.raises(UserError, match="unknown dtype 'float16'"):
        ReadmissionModel.from_pretrained("readmission-demo", dtype="float16")


def test_the_rates_of_both_precisions_are_measured():
    rates = multiplication_rates(0.02)
    assert set(rates) == {"float32", "bfloat16"}
    assert min(rates.values()) > 0


@pytest.mark.parametrize(
    ("ratio", "is_faster"), [(0.03, False), (1.4, False), (2.7, True)]
)
def test_bfloat16_is_advised_only_where_it_is_faster(ratio, is_faster):
    rates = {"float32": 100.0, "bfloat16": 100.0 * ratio}
    assert ("--precision bfloat16" in precision_advice(rates)) == is_faster
    hint = long_run_hint(rates)
    assert bool(hint) == is_faster
    assert "\n" not in hint


def test_a_killed_run_is_not_resumed_in_another_precision(risk_models):
    exact, fast = map(ReadmissionTask, risk_models)
    assert exact.facts() != fast.facts()


def test_workers_of_ray_and_spark_get_the_precision(
    risk_models, exact_probability
):
    """They unpickle the task."""
    _, fast = risk_models
    frame = pd.DataFrame(
        {"stay_id": [1], "category": "Discharge summary", "text": NOTE}
    )
    rows = [
        score_frame(task, frame)
        for task in (
            ReadmissionTask(fast),
            pickle.loads(pickle.dumps(ReadmissionTask(fast))),
        )
    ]
    pd.testing.assert_frame_equal(*rows)
    probability = rows[1]["probability"][0]
    assert 0 < abs(probability - exact_probability) <= 0.01


def test_the_option_of_the_commands_changes_the_precision(
    tmp_path, exact_probability
):
    notes = tmp_path / "notes.csv"
    row = {"stay_id": 1, "category": "Discharge summary", "text": NOTE}
    pd.DataFrame([row]).to_csv(notes, index=False)
    out = tmp_path / "out.csv"
    command = ["score", str(notes), "--model", "readmission-demo"]
    command += ["--out", str(out), "--precision", "bfloat16"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    probability = pd.read_csv(out)["probability"][0]
    assert 0 < abs(probability - exact_probability) <= 0.01


def test_the_service_computes_in_the_precision_of_its_option(
    tmp_path, exact_probability
):
    needed = "the service needs the extra: pip install .[service]"
    testclient = pytest.importorskip("starlette.testclient", reason=needed)
    application = pytest.importorskip("domainbert.service.app", reason=needed)
    settings = application.ServiceSettings(
        model=["readmission-demo"], precision="bfloat16"
    )
    service = application.Service(settings, work=tmp_path)
    client = testclient.TestClient(service.app, base_url="http://localhost")
    assert client.get("/ready").json()["ready"]
    about = client.get("/v1").json()["tasks"]["readmission"]
    assert about["precision"] == "bfloat16"
    record = {"stay_id": "1", "category": "Discharge summary", "text": NOTE}
    answer = client.post("/v1/readmission", json={"records": [record]}).json()
    probability = answer["records"][0]["probability"]
    assert 0 < abs(probability - exact_probability) <= 0.01
