import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.ner.differences import differ


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("non-small cell lung carcinoma", "Small Cell Lung Cancer"),
        ("type 1 diabetes", "type 2 diabetes mellitus"),
        ("type I diabetes", "type II diabetes"),
        ("lung cancer", "non-small cell lung cancer"),
        ("diabetes mellitus", "type 2 diabetes mellitus"),
        ("hepatitis B", "hepatitis C"),
        ("left bundle branch block", "right bundle branch block"),
        ("bundle branch block", "left bundle branch block"),
        ("pancreatitis", "pancreatic adenoma"),
        ("meningitis", "meningioma"),
        ("hyperkalemia", "hypokalemia"),
        ("acute leukemia", "chronic leukemia"),
        ("osteosarcoma", "osteoma"),
        ("gastritis", "hepatitis"),
        ("Factor V deficiency", "factor X deficiency"),
        ("nonketotic hyperglycinemia", "ketotic hyperglycinemia"),
    ],
)
def test_names_apart(name, other):
    assert differ(name, other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("heart failure", "cardiac failure"),
        ("type II diabetes", "diabetes mellitus type 2"),
        ("left renal mass", "renal mass"),
        ("adenocarcinoma of the lung", "lung carcinoma"),
        ("hepatitis C infection", "hepatitis C virus infection"),
        ("renal tumours", "kidney neoplasm"),
        ("nonalcoholic fatty liver", "non-alcoholic fatty liver disease"),
        ("acute renal failure", "renal failure"),
    ],
)
def test_names_that_may_be_linked(name, other):
    assert not differ(name, other)


@given(st.text(max_size=30))
def test_a_name_does_not_differ_from_itself(name):
    assert not differ(name, name)
