"""A model of several groups: training, prediction, tables, explanations, folders."""

import numpy as np
import pandas as pd
import pytest

import clinical
from clinical.risk.aggregation import aggregate, aggregate_stays
from clinical.risk.diagnoses import DiagnosisModel, DiagnosisSettings
from clinical.stays.cohorts import coded_stays, labels_of
from clinical.training.diagnoses import (
    DiagnosisRecipe,
    calibrate,
    fit,
    recalibrate,
    refit,
    start_at_shares,
)
from clinical.training.diagnosis_objective import (
    DiagnosisObjective,
    DiagnosisTable,
)
from domainbert.errors import UserError
from domainbert.scoring.cache import WindowCache
from domainbert.training.settings import TrainingSettings

WORDS = {"I50": "failure", "R50": "fever", "R52": "pain"}
FILLER = "patient home stable chest clinic blood breath weeks wife condition".split()
QUICK = TrainingSettings(
    epochs=10, learning_rate=5e-3, batch_tokens=512, dropout=0.0, evaluations=1
)


@pytest.fixture(scope="module")
def cohort():
    """Stays of several windows; each group is a word that is repeated at one place."""
    generator = np.random.default_rng(1)
    rows = []
    for number in range(300):
        words = list(generator.choice(FILLER, 60))
        groups, places = [], []
        for place, (group, word) in enumerate(WORDS.items()):
            if generator.random() < 0.4:
                words[20 * place : 20 * place + 8] = [word] * 8
                groups.append(group)
        text = " ".join(words)
        for group in groups:
            start = text.index(WORDS[group])
            end = text.rindex(WORDS[group]) + len(WORDS[group])
            places.append(
                {"group": group, "note": 0, "start": start, "end": end}
            )
        side = ("train", "train", "val", "train", "test")[number % 5]
        rows.append((f"p{number}", [text], groups, places, side))
    columns = ["patient_id", "text", "diagnoses", "evidence", "split"]
    return pd.DataFrame(rows, columns=columns)


@pytest.fixture(scope="module")
def recipe(tiny_encoder):
    table = DiagnosisTable(
        encoder=str(tiny_encoder),
        window=24,
        min_stays=10,
        positive_weight=2.0,
    )
    return DiagnosisRecipe(model=table, training=QUICK)


@pytest.fixture(scope="module")
def model(cohort, recipe):
    return fit(cohort, recipe, names={"I50": "heart failure"})


def test_it_learns_the_groups_and_ranks_them(model, cohort):
    test = cohort[cohort["split"] == "test"]
    labels = labels_of(test, model.labels)
    stays = list(model.predict_many(test["text"]))
    values = np.array(
        [[s[g].probability for g in model.labels] for s in stays]
    )
    evaluation = clinical.evaluate_diagnoses(
        labels, values, groups=model.labels, patients=test["patient_id"]
    )
    assert evaluation.overall["macro AUROC"].value > 0.8
    first = stays[0]
    assert [risk.rank for risk in first.groups] == [1, 2, 3]
    probabilities = [risk.probability for risk in first.groups]
    assert probabilities == sorted(probabilities, reverse=True)
    assert first["I50"].name == "heart failure"
    with pytest.raises(KeyError):
        first["Z99"]


def test_score_is_the_rule_for_each_group_by_itself(model, cohort):
    stay = model.predict(cohort["text"][0])
    for number, group in enumerate(model.labels):
        windows = stay.window_probabilities[:, number]
        assert stay[group].score == pytest.approx(aggregate(windows, model.c))
    assert len(stay.windows) == len(stay.window_probabilities) > 1


def test_rule_of_several_outcomes_is_that_of_each():
    random = np.random.default_rng(0)
    values = random.random((7, 3))
    counts = np.array([2, 1, 4])
    together = aggregate_stays(values, counts, c=1.5)
    alone = [aggregate_stays(column, counts, c=1.5) for column in values.T]
    assert (together == np.stack(alone, axis=1)).all()


def test_company_does_not_change_a_stay(model, cohort):
    alone = model.predict(cohort["text"][3])
    together = list(model.predict_many(cohort["text"][:9]))[3]
    for group in model.labels:
        assert alone[group].probability == pytest.approx(
            together[group].probability, abs=1e-5
        )


def test_folder_has_the_same_groups_numbers_and_settings(
    model, cohort, tmp_path
):
    model.save_pretrained(tmp_path / "m")
    loaded = clinical.DiagnosisModel.from_pretrained(tmp_path / "m")
    assert loaded.labels == model.labels == ("I50", "R50", "R52")
    assert loaded.fingerprint() == model.fingerprint()
    assert loaded.settings == model.settings
    before, after = (m.predict(cohort["text"][1]) for m in (model, loaded))
    for group in model.labels:
        assert before[group].probability == pytest.approx(
            after[group].probability, abs=1e-6
        )
    card = (tmp_path / "m" / "README.md").read_text()
    assert "| I50 | heart failure |" in card


def test_table_is_long_and_every_stay_has_a_row(model, cohort):
    frame = cohort.head(4).assign(stay_id=list("abcd"))[["stay_id", "text"]]
    frame.loc[2, "text"] = None
    scores = model.score_frame(frame)
    assert list(scores["stay_id"]) == ["a"] * 3 + ["b"] * 3 + ["c"] + ["d"] * 3
    assert scores["rank"].dropna().tolist() == [1, 2, 3] * 3
    assert scores[scores["stay_id"] == "c"]["status"].tolist() == ["empty"]
    one = model.score_frame(frame, top=1)
    assert len(one) == 4
    with pytest.raises(UserError, match="top is 0"):
        model.score_frame(frame, top=0)


def test_explanation_of_a_group_finds_its_words(model, cohort):
    rows = cohort[(cohort["split"] == "test")]
    stay = next(
        text
        for text, g in zip(rows["text"], rows["diagnoses"], strict=True)
        if "R50" in g
    )
    explanation = model.explain(stay, outcome="R50")
    assert explanation.outcome == "R50"
    assert explanation.risk.probability == pytest.approx(
        model.predict(stay)["R50"].probability, abs=1e-6
    )
    assert "fever" in explanation.raising[0].text
    with pytest.raises(UserError, match="unknown outcome 'R5'"):
        model.explain(stay, outcome="R5")


def test_cached_windows_give_the_same_numbers(model, cohort, tmp_path):
    plain = model.predict(cohort["text"][5])
    cached = model.with_settings(model.settings)
    cached.cache = WindowCache(tmp_path / "c.sqlite", model="m")
    first = cached.predict(cohort["text"][5])
    calls = []
    cached.runner.run = lambda *_, **__: calls.append(1)  # a hit runs nothing
    again = cached.predict(cohort["text"][5])
    del cached.runner.run
    assert not calls
    assert first.groups == again.groups == plain.groups


def test_windows_with_evidence_have_their_own_groups(cohort, recipe):
    rows, _ = coded_stays(cohort)
    rows = rows[rows["split"] != "test"].reset_index(drop=True)
    plain = untrained(recipe)
    objective = DiagnosisObjective(
        plain, rows, table=recipe.model, training=QUICK
    )
    examples = objective.make(0)
    assert all(len(example.windows) == 1 for example in examples)
    words = plain.tokenizer.convert_ids_to_tokens
    for example in examples:
        tokens = words(example.windows[0])
        for number, word in enumerate(WORDS.values()):
            if example.target[number]:
                assert tokens.count(word) == 8  # all of it is in the window
            elif example.weight[number]:
                assert word not in tokens
    # Without evidence a stay is one example with all its groups.
    whole = DiagnosisObjective(
        plain,
        rows.drop(columns="evidence"),
        table=recipe.model,
        training=QUICK,
    )
    stays = whole.make(0)
    assert len(stays) == (rows["split"] == "train").sum()
    assert max(len(example.windows) for example in stays) > 1


def untrained(recipe, labels=tuple(WORDS)):
    """A model of the recipe as it is before training."""
    return DiagnosisModel.untrained(
        recipe.model.encoder,
        training=QUICK,
        settings=DiagnosisSettings(window=recipe.model.window),
        labels=list(labels),
    )


def test_a_stay_without_codes_is_unknown_and_counted(cohort):
    cohort = cohort.assign(diagnoses=[None, *cohort["diagnoses"][1:]])
    rows, unknown = coded_stays(cohort)
    assert unknown == 1
    assert "p0" not in set(rows["patient_id"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"diagnoses": "I50"}, "holds a str; expected a list"),
        ({"diagnoses": None}, "no stay with codes"),
        ({"diagnoses": [["I50"]] * 300}, "every stay of the train side"),
        ({"diagnoses": [[]] * 300}, "no group has 10 stays"),
        ({"patient_id": "p"}, "more than one side"),
    ],
)
def test_bad_cohorts_are_told(cohort, recipe, change, message):
    with pytest.raises(UserError, match=message):
        fit(cohort.assign(**change), recipe)


def test_groups_with_few_stays_have_no_calibrator(model):
    random = np.random.default_rng(0)
    values = random.random((60, 3))
    labels = (values > 0.5).astype(float)
    noise = random.random(labels.shape) < 0.2
    labels = np.abs(labels - noise)
    labels[:, 1] = 0
    labels[:5, 1] = 1
    plain = model.with_settings(
        model.settings.replaced(calibration={}, thresholds={})
    )
    fitted = calibrate(plain, values, np.ones(60, int), labels)
    assert set(fitted.settings.calibration) == {"I50", "R52"}
    assert fitted.is_calibrated.tolist() == [True, False, True]
    scores = np.full((1, 3), 0.3)
    assert fitted.calibrated(scores)[0, 1] == 0.3


@pytest.fixture(scope="module")
def short(recipe):
    """The recipe with less training and with auxiliary groups."""
    training = recipe.training.replaced(epochs=1)
    table = recipe.model.replaced(auxiliary_stays=3)
    return DiagnosisRecipe(model=table, training=training)


def test_rare_groups_are_learned_beside_and_left_out(cohort, short, tmp_path):
    """They are outputs in training, and the folder has none of them."""
    groups = [
        [*groups, "A00"] if number < 9 else groups
        for number, groups in enumerate(cohort["diagnoses"])
    ]
    trained = clinical.DiagnosisModel.fit(
        cohort.assign(diagnoses=groups), short
    )
    assert trained.labels == ("I50", "R50", "R52")
    assert trained.network.classifier.out_features == 3
    assert set(trained.settings.names) == set(trained.labels)
    trained.save_pretrained(tmp_path / "m")
    loaded = clinical.DiagnosisModel.from_pretrained(tmp_path / "m")
    assert loaded.fingerprint() == trained.fingerprint()
    stay = cohort["text"][1]
    for group in trained.labels:
        assert trained.predict(stay)[group].probability == pytest.approx(
            loaded.predict(stay)[group].probability, abs=1e-6
        )


def test_refitted_model_reads_both_sides_and_keeps_what_was_measured(
    model, cohort, short
):
    again = refit(model, cohort, short)
    sides = cohort["split"].isin(["train", "val"]).sum()
    assert again.manifest.data.stays == {"train": sides}
    assert again.settings == model.settings
    assert again.labels == model.labels
    assert again.manifest.scores == model.manifest.scores
    assert again.fingerprint() != model.fingerprint()


def test_a_new_head_begins_at_the_shares(cohort, recipe):
    rows, _ = coded_stays(cohort)
    plain = untrained(recipe)
    objective = DiagnosisObjective(
        plain, rows, table=recipe.model, training=QUICK
    )
    shares = objective.shares()
    start_at_shares(plain.network, shares)
    values = plain.predict_windows([e.windows[0] for e in objective.make(1)])
    assert values.mean(axis=0) == pytest.approx(shares, abs=0.05)


def test_each_epoch_cuts_the_notes_at_other_places(cohort, recipe):
    rows, _ = coded_stays(cohort)
    plain = untrained(recipe)
    table = recipe.model.replaced(negatives=1.0)
    objective = DiagnosisObjective(plain, rows, table=table, training=QUICK)
    epochs = [objective.make(number) for number in (0, 1)]
    tokens = [
        sum(len(e.windows[0]) - 2 for e in examples) for examples in epochs
    ]
    assert tokens[0] == tokens[1]  # no token is lost
    firsts = [epoch[0].windows[0].tolist() for epoch in epochs]
    assert firsts[0] != firsts[1]
    again = objective.make(1)[0].windows[0]
    assert again.tolist() == firsts[1]


def test_recalibrating_needs_enough_stays_and_says_what_it_fitted(
    model, cohort
):
    forgetful = model.with_settings(model.settings)
    forgetful.manifest = model.manifest.model_copy(deep=True)
    forgetful.manifest.data.patients = None
    fitted = recalibrate(forgetful, cohort, split="train", keep_c=True)
    assert fitted.c == model.c
    assert set(fitted.settings.calibration) <= set(WORDS)
    assert fitted.settings.calibration
    assert fitted.manifest.recalibrated == (cohort["split"] == "train").sum()
    assert model.manifest.recalibrated is None
    few = cohort[cohort["split"] == "train"].head(30)
    with pytest.raises(UserError, match="too few to calibrate on"):
        recalibrate(forgetful, few, split="train")
    with pytest.raises(UserError, match="was trained on patients"):
        recalibrate(model, cohort, split="train")


@pytest.mark.parametrize("number", [1, 2000])
def test_one_group_and_very_many(number, cohort, recipe):
    plain = untrained(recipe, [f"G{n}" for n in range(number)])
    stay = plain.predict(cohort["text"][0])
    assert len(stay.groups) == number
    assert stay.window_probabilities.shape == (len(stay.windows), number)
    explanation = plain.explain(cohort["text"][0], outcome="G0")
    assert explanation.risk.probability == pytest.approx(
        stay["G0"].probability, abs=1e-6
    )


def test_a_single_group_is_trained(cohort, short):
    groups = [[g for g in row if g == "I50"] for row in cohort["diagnoses"]]
    table = short.model.replaced(auxiliary_stays=None)
    single = DiagnosisRecipe(model=table, training=short.training)
    model = fit(cohort.assign(diagnoses=groups), single)
    assert model.labels == ("I50",)
    assert model.predict(cohort["text"][0]).groups[0].group == "I50"
