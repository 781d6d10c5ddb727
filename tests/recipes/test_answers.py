"""The recipe of the question answerer: what its last stage asks, and its command."""

import json

import pytest

from biomed.qa.questions import split_by_article
from domainbert.models.manifest import Manifest
from domainbert.models.storage import read_manifest
from recipes import answers
from recipes.answers import COVID, SQUAD, mixture, share_of
from tests.biomed.qa.conftest import made_up
from tests.recipes.conftest import run

RECIPE = """
[model]
encoder = "{encoder}"
window = 32

[training]
batch_tokens = 512
evaluations = 1

[stages]
epochs = [1.0, 1.0]

[validation]
share = 0.2
choosing = 4
"""


def squad(questions):
    """Questions as SQuAD's JSON has them."""
    data = []
    for question in questions:
        ((start, end),) = question.answer_spans
        text = question.context[start:end]
        qa = {
            "id": question.id,
            "question": question.text,
            "answers": [{"text": text, "answer_start": start}],
        }
        paragraph = {"context": question.context, "qas": [qa]}
        data.append({"title": question.article, "paragraphs": [paragraph]})
    return json.dumps({"data": data})


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qa").mkdir()
    paths = {"g": f"qa/{SQUAD}", "c": f"qa/{COVID}", "s": "train.json"}
    for seed, (name, path) in enumerate(paths.items()):
        questions = made_up(20, name=name, seed=seed)
        (tmp_path / path).write_text(squad(questions))
    return tmp_path


def test_a_mixture_has_a_share_of_each_file():
    general = made_up(20, name="general")
    special = made_up(10, name="special")
    mixed = mixture(special, share_of(general, 0.35))
    assert mixed.name == "special, general"
    assert len(mixed) == 10 + 7
    assert {q.id for q in special} < {q.id for q in mixed}


def test_the_last_stage_has_all_kinds_and_no_held_out_article(
    files, tiny_encoder, tmp_path
):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(encoder=tiny_encoder))
    out = tmp_path / "model"
    words = [files, "--data", files, "--recipe", recipe]
    run(answers.main, *words, "--out", out)
    manifest = read_manifest(out, Manifest)
    covid = made_up(20, name="c", seed=1)
    training, held_out = split_by_article(covid, share=0.2)
    used = [facts["used"] for facts in manifest.training.facts]
    assert used == [20, len(training), len(training) + 10 + 7]
    assert len(manifest.training.stages) == 3
    assert manifest.data.counts["questions held out"] == len(held_out) > 0
    assert manifest.scores.note.startswith("Held-out articles of COVID-QA")


def test_finished_stages_are_not_run_again(files, tiny_encoder, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(encoder=tiny_encoder))
    words = [files, "--data", files, "--recipe", recipe]
    words += ["--checkpoints", tmp_path / "checkpoints"]
    weights = []
    outputs = []
    for name, options in (("first", []), ("second", ["--resume"])):
        out = tmp_path / name
        outputs.append(run(answers.main, *words, "--out", out, *options))
        file = tmp_path / name / "adapter_model.safetensors"
        weights.append(file.read_bytes())
    assert ["step 1 of" in output for output in outputs] == [True, False]
    assert weights[0] == weights[1]
