"""The same hospital, written by other programs, has the same labels, or stops with one line."""

import pytest

from clinical import build_cohort
from domainbert.errors import UserError
from tests.clinical.cohort import writers

N_STAYS = 500


def words_of(texts):
    return [" ".join(text.split()) for text in texts]


@pytest.fixture(scope="module")
def hospital():
    return writers.hospital(N_STAYS)


@pytest.mark.slow
@pytest.mark.parametrize("write", writers.SAME, ids=lambda f: f.__name__)
def test_labels_do_not_depend_on_the_program_that_wrote_the_tables(
    hospital, tmp_path, write
):
    stays, labels = hospital
    rows = build_cohort(**write(stays, tmp_path)).to_frame()
    rows = rows.set_index("stay_id")
    if write is writers.synthea:
        ids = {writers.own_id(stay.stay): stay.stay for stay in stays}
        rows = rows.rename(index=ids)
    elif write is writers.parts_in_one_file:
        rows = rows.drop("CSN")  # the lines of names, which are listed
    is_kept = rows["exclusion"].isna()
    found = {
        stay: int(rows.loc[stay, "readmitted"]) if is_kept[stay] else ""
        for stay in rows.index
    }
    assert found.keys() >= labels.keys()
    assert {
        stay: (found.get(stay), label, rows.loc[stay, "exclusion"])
        for stay, label in labels.items()
        if found.get(stay) != label
    } == {}
    texts = {stay.stay: stay.text for stay in stays}
    is_rendered = write in (writers.epic_with_its_classes, writers.cerner)
    for stay in rows.index[is_kept]:
        wanted, written = [texts[stay]], list(rows.loc[stay, "text"])
        if is_rendered:  # HTML has no line ends of its own
            wanted, written = map(words_of, (wanted, written))
        assert wanted[0] in written


@pytest.mark.parametrize("write", writers.STOPPED, ids=lambda f: f.__name__)
def test_what_cannot_be_decided_is_asked_for(hospital, tmp_path, write):
    stays, _ = hospital
    with pytest.raises(UserError, match=writers.STOPPED[write]):
        build_cohort(**write(stays, tmp_path))
