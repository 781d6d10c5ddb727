import pytest

from domainbert.encoders import check_casing, find_encoder, load_tokenizer
from domainbert.errors import UserError
from domainbert.pretraining.tokens import SPECIAL, train_vocabulary

SENTENCES = ["The patient denies chest pain.", "Heart failure, NYHA III; EF 30%."]
DOCUMENTS = [(f"p{number}", SENTENCES) for number in range(20)]


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def learnt(request):
    return train_vocabulary(DOCUMENTS, size=120, lower_case=request.param), request.param


def test_every_word_of_the_corpus_comes_back(learnt):
    tokenizer, lower_case = learnt
    for sentence in SENTENCES:
        ids = tokenizer(sentence)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        text = tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "")
        wanted = sentence.lower() if lower_case else sentence
        assert text == wanted.replace(" ", "")


def test_it_survives_the_disk(learnt, tmp_path, new_network):
    tokenizer, lower_case = learnt
    tokenizer.save_pretrained(tmp_path)
    new_network().bert.save_pretrained(tmp_path)
    again = load_tokenizer(find_encoder(tmp_path))
    check_casing(again, name="learnt")
    assert again.do_lower_case == lower_case
    assert again.get_vocab() == tokenizer.get_vocab()
    for text in (*SENTENCES, "Unseen words, éà ✓ [MASK]"):
        assert again(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_the_same_text_gives_the_same_pieces(learnt):
    tokenizer, lower_case = learnt
    again = train_vocabulary(iter(DOCUMENTS), size=120, lower_case=lower_case)
    assert again.get_vocab() == tokenizer.get_vocab()
    assert tokenizer.convert_ids_to_tokens(range(5)) == list(SPECIAL)
    assert tokenizer.pad_token_id == 0
    assert len(tokenizer) <= 120


def test_no_text_no_vocabulary():
    with pytest.raises(ValueError, match=r"^there is no text to learn a vocabulary from$"):
        train_vocabulary([], size=100, lower_case=True)


# --- names of patients


def pieces(documents, **options):
    return set(train_vocabulary(documents, size=400, lower_case=True, **options).get_vocab())


def test_a_word_needs_ten_different_patients():
    often = [("p0", ["Mr. Zebrafinch came. Zebrafinch left."] * 50)]  # many times, one patient
    nine = [(f"p{n}", ["Quetzal was seen."]) for n in range(9)] * 5
    found = pieces([*DOCUMENTS, *often, *nine])
    assert "patient" in found
    assert not [piece for piece in found if "zebra" in piece or "finch" in piece]
    assert not [piece for piece in found if "quetz" in piece or "zal" in piece]
    assert "quetzal" in pieces([*DOCUMENTS, *nine, ("p9", ["Quetzal again."])])
    assert "quetzal" in pieces([*DOCUMENTS, *nine], min_patients=9)


def test_a_rare_ideograph_is_a_word_too():
    rare = [("p0", ["\u738b \u738b \u738b"])]
    assert "\u738b" not in pieces([*DOCUMENTS, *rare])
    assert "\u738b" in pieces([*DOCUMENTS, *((f"p{n}", ["\u738b"]) for n in range(10))])


def test_too_few_patients_for_any_word():
    wanted = r"^no word occurs with 10 different patients .*lower min_patients under \[scratch\]$"
    with pytest.raises(UserError, match=wanted):
        train_vocabulary(DOCUMENTS[:9], size=100, lower_case=True)
