import pytest
from hypothesis import given
from hypothesis import strategies as st

from biomed.corpora.words import JOINER, split_words
from biomed.ner.readable import clean, is_multilingual, joined, masked, name_of

KNOWN = {"pneumonia", "hypertension", "diabetes", "levofloxacin"}


def saved(left, right):
    """A tokenizer that knows a few words whole: one piece for them, two for others."""
    return 1 if (left + right).lower() in KNOWN else -1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Alzheimer&#39;s", "Alzheimer'    s"),
        ("Crohn&rsquo;s &amp; gout", "Crohn\u2019      s &     gout"),
        ("Hodgkin&nbsp;lymphoma", "Hodgkin\u00a0     lymphoma"),
        ("M&eacute;ni&#xe8;re", f"M\u00e9{7 * JOINER}ni\u00e8{5 * JOINER}re"),
        ("R&D; AT&T; &c; &unknown;", "R&D; AT&T; &c; &unknown;"),
        ("<p>no <b>pain</b><br/>fever", "  \nno    pain        \nfever"),
        ("<p>no<br>\nfever</b>\nor", "  \nno    \nfever    \nor"),
        ("p<0.05 and a<b", "p<0.05 and a<b"),
        (r"chest\npain\r\nfever\tchills", "chest \npain   \nfever  chills"),
        ("C:\\new\nnext", "C:\\new\nnext"),  # there are real line breaks
        ("Ｄｉａ \U0001d42c\U0001d42d", "Dia st"),
    ],
)
def test_clean(text, plain):
    assert clean(text) == plain


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pneu-\nmonia", "pneumonia"),
        ("PNEU-\r\n  MONIA", "PNEUMONIA"),
        ("levo\u2010\nfloxacin", "levofloxacin"),
        ("hyper- tension", "hypertension"),
        ("hyper\u200btension", "hypertension"),
        ("metho\u00ad\ntrexate", "methotrexate"),
        ("in\ufb02amed", "inflamed"),
    ],
)
def test_parts_of_a_word_are_joined(text, name):
    whole = joined(text, saved)
    assert len(whole) == len(text)
    assert split_words(whole).tolist() == [[0, len(text)]]
    assert name_of(whole) == name


@pytest.mark.parametrize(
    "text", ["well-\nknown", "non-\nHodgkin", "pre- and", "type-\n2"]
)
def test_compounds_stay_apart(text):
    assert joined(text, saved) == text


def test_an_invisible_character_between_two_words_is_a_space():
    assert joined("heart\u2060failure", saved) == "heart failure"


def test_masks_are_commas_and_only_where_the_model_reads_no_other_script():
    text = "HTN (-), \u60a3\u8005 gout\U0001f637 \u2610 MI"
    commas = masked(text, reads_foreign=False)
    assert commas == "HTN    , ,  gout, , MI"
    assert (
        masked(text, reads_foreign=True) == "HTN    , \u60a3\u8005 gout, , MI"
    )
    assert (
        masked(
            "Me\u0301nie\u0300re \u03b2 \u00e9", reads_foreign=False
        ).isalpha()
        is False
    )


def test_names_for_a_dictionary():
    text = "Alzheimer&#39;s dis-\nease"
    assert name_of(joined(clean(text), lambda *_: 0)) == "Alzheimer's disease"


def test_vocabularies():
    assert not is_multilingual({"heart": 0, "##failure": 1, "\u03b2": 2})
    assert is_multilingual({"heart": 0, "\u5fc3": 1})


@given(
    st.text(
        alphabet="aB1&#39;<br/>\\n-\u00ad\u200b\u2060 \n\u5fc3\U0001f637\ufb02"
    )
)
def test_every_character_keeps_its_place(text):
    plain = clean(text)
    whole = joined(plain, saved)
    shown = masked(whole, reads_foreign=False)
    assert len(text) == len(plain) == len(whole) == len(shown)
