import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
from sklearn.utils import estimator_checks

import clinical
from domainbert.errors import UserError


@pytest.fixture(scope="module")
def stays():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 2, 120)
    return [
        f"patient {'failure' if y else 'stable'} home " * 3 for y in labels
    ], labels


@pytest.fixture(scope="module")
def fitted(stays, tiny_encoder):
    texts, labels = stays
    classifier = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=5, learning_rate=5e-3
    )
    groups = [f"patient-{n // 2}" for n in range(len(texts))]
    assert classifier.fit(texts, labels, groups=groups) is classifier
    return classifier


def test_fit_and_predict_the_scikit_learn_way(stays, fitted):
    texts, labels = stays
    proba = fitted.predict_proba(texts)
    assert proba.shape == (120, 2)
    assert proba.sum(axis=1) == pytest.approx(np.ones(120))
    assert roc_auc_score(labels, proba[:, 1]) > 0.9
    assert ((proba[:, 1] >= 0.5) == fitted.predict(texts)).all()
    assert list(fitted.classes_) == [0, 1]


def test_row_numbers_are_not_kept_as_patients(stays, tiny_encoder, fitted):
    """A cohort with a patient 7 would be taken for one that was trained on."""
    assert fitted.model_.manifest.data.patients
    texts, labels = stays
    alone = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=0.1
    )
    assert alone.fit(texts, labels).model_.manifest.data.patients is None


def test_a_stay_that_cannot_be_scored_is_no_class(fitted):
    texts = ["patient stable", "", None, "patient failure"]
    assert np.isnan(fitted.predict_proba(texts)[:, 1]).tolist() == [
        False,
        True,
        True,
        False,
    ]
    with pytest.raises(
        UserError, match=r"2 of 4 stays cannot be scored \(row 1 first\)"
    ):
        fitted.predict(texts)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ("one note", "str"),
        (pd.DataFrame({"note": ["a", "b"]}), "DataFrame"),
        ({"a": 1}, "dict"),
    ],
)
def test_what_is_not_one_item_a_stay_is_refused(fitted, texts, kind):
    message = rf"X is a {kind}; expected .* such as frame\['text'\]"
    for call in (
        lambda: fitted.fit(texts, [0, 1]),
        lambda: fitted.predict(texts),
    ):
        with pytest.raises(UserError, match=message):
            call()


@pytest.mark.parametrize(
    "labels", [[0, np.nan], [1, 2], [0, -1], ["0", "1"], [0.5, 1], [None, 1]]
)
def test_other_labels_are_refused_before_any_work(labels):
    classifier = clinical.ReadmissionClassifier(encoder="nowhere")
    with pytest.raises(
        UserError, match=r"binary classification .* expected 0 and 1"
    ):
        classifier.fit(["a", "b"], labels)


def patients_seen(monkeypatch):
    """The patients of each training, by its sides."""
    from clinical.training import estimator

    own, seen = estimator.fit, []
    monkeypatch.setattr(
        estimator,
        "fit",
        lambda cohort, *a, **k: seen.append(cohort) or own(cohort, *a, **k),
    )
    return seen


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_keeps_patients_together(
    stays, tiny_encoder, monkeypatch, routing, caplog
):
    texts, labels = stays
    groups = [f"patient-{n // 2}" for n in range(120)]
    seen = patients_seen(monkeypatch)
    classifier = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=0.1
    )
    splitter = StratifiedGroupKFold(3)
    if (
        routing
    ):  # `groups` reaches the splitter and, because it is requested, `fit`
        with sklearn.config_context(enable_metadata_routing=True):
            scores = cross_val_score(
                classifier,
                texts,
                labels,
                cv=splitter,
                params={"groups": groups},
            )
    else:  # the column travels with the rows
        frame = pd.DataFrame({"text": texts, "group": groups})
        scores = cross_val_score(
            classifier, frame, labels, cv=splitter, groups=groups
        )
    assert np.isfinite(scores).all()
    assert len(seen) == 3
    for cohort in seen:
        assert set(cohort["patient_id"]) <= set(groups)
        sides = cohort.groupby("patient_id")["split"].nunique()
        assert (sides == 1).all()
        assert cohort["patient_id"].duplicated().any()
    assert "no groups" not in caplog.text


def test_no_groups_are_said_once(stays, tiny_encoder, caplog):
    from clinical.training.estimator import _warn_of_no_groups

    _warn_of_no_groups.cache_clear()
    texts, labels = stays
    classifier = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=0.1
    )
    for _ in range(2):
        classifier.fit(texts, labels)
    assert caplog.text.count("each stay counts as another patient") == 1


def test_few_stays_in_folds_still_have_both_outcomes_on_both_sides(
    tiny_encoder,
):
    labels = np.array([1] * 6 + [0] * 54)
    texts = [f"patient {'failure' if y else 'stable'} home" for y in labels]
    classifier = clinical.ReadmissionClassifier(
        encoder=str(tiny_encoder), epochs=1
    )
    scores = cross_val_score(
        classifier, texts, labels, cv=2, error_score="raise"
    )
    assert len(scores) == 2
    with pytest.raises(
        UserError, match="1 patients of one class; expected at least 2"
    ):
        classifier.fit(texts, labels, groups=["same"] * 6 + list(range(54)))


def test_parameters_clone_and_an_unfitted_one_says_so():
    classifier = clinical.ReadmissionClassifier(epochs=1.5, objective="window")
    assert clone(classifier).get_params() == classifier.get_params()
    with pytest.raises(NotFittedError):
        classifier.predict_proba(["note"])


def test_lengths_must_agree(tiny_encoder):
    classifier = clinical.ReadmissionClassifier(encoder=str(tiny_encoder))
    with pytest.raises(
        ValueError, match="X, y and groups differ: 2, 1, 1 rows"
    ):
        classifier.fit(["a", "b"], [1])


class OnNumbers(clinical.ReadmissionClassifier):
    """Reads rows of numbers as words, so that scikit-learn's checks have something to fit."""

    def fit(self, X, y):
        y = np.asarray(y)
        return super().fit(as_notes(X), (y == y.max()).astype(int))

    def predict_proba(self, X):
        return super().predict_proba(as_notes(X))


def as_notes(rows):
    words = (
        "chest pain fever heart failure home stable right blood breath".split()
    )
    return [
        " ".join(
            words[int(abs(value) * 7) % len(words)] for value in np.ravel(row)
        )
        for row in np.asarray(rows)
    ]


def test_scikit_learns_own_checks_for_estimators_of_text():
    # For an estimator that says that it reads no tables of numbers, this runs what is left.
    results = estimator_checks.check_estimator(
        clinical.ReadmissionClassifier(), on_fail="raise"
    )
    assert all(result["status"] != "failed" for result in results)


@pytest.mark.parametrize(
    "name",
    [
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_estimators_unfitted",
        "check_get_params_invariance",
        "check_mixin_order",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_requires_y_none",
        "check_set_params",
        "check_supervised_y_no_nan",
        "check_valid_tag_types",
    ],
)
def test_scikit_learns_checks_without_training(name):
    check = getattr(estimator_checks, name)
    check("ReadmissionClassifier", clinical.ReadmissionClassifier())


@pytest.mark.parametrize(
    "name",
    [
        "check_dict_unchanged",
        "check_dont_overwrite_parameters",
        "check_estimators_fit_returns_self",
        "check_estimators_overwrite_params",
        "check_fit_check_is_fitted",
        "check_fit_idempotent",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
    ],
)
def test_scikit_learns_checks_on_numbers_read_as_words(name, tiny_encoder):
    classifier = OnNumbers(encoder=str(tiny_encoder), epochs=0.2)
    getattr(estimator_checks, name)("ReadmissionClassifier", classifier)


# These checks of scikit-learn do not apply: those about numeric tables (check_n_features_in,
# check_fit2d_*, check_estimators_dtypes, check_estimators_nan_inf, check_complex_data, sparse and
# memory-mapped input, feature names), because X is text; check_classifiers_classes and
# check_classifiers_train with their labels "one", "two" or 2, because labels other than 0 and 1
# are refused on purpose; those about sample weights and class weights, which do not exist here.
