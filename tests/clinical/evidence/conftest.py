import numpy as np
import pytest

from clinical.risk.model import ReadmissionModel, ReadmissionSettings

HISTORY = """HISTORY: Patient was admitted with heart failure. He lives alone. He missed furosemide
for 2 weeks. No fever. The mother had pneumonia.

PLAN: Return to clinic. Antibiotic stopped; condition stable. He denies chest pain and dyspnea.
Discharge home with insulin."""
NOTES = [
    HISTORY,
    "Patient left the hospital. He is not in pain. Chronic renal disease, no edema. " * 3,
    None,
    "Right kidney failure. Medication compliance was poor.",
]


@pytest.fixture
def notes():
    return list(NOTES)


@pytest.fixture
def evidence_model(network, tokenizer):
    """A tiny model with several windows a note and a calibrator."""
    settings = ReadmissionSettings(window=32, c=3.0, calibration=(1.5, -0.4), alert_threshold=0.5)
    return ReadmissionModel(network, tokenizer, settings=settings)


@pytest.fixture
def read(evidence_model, notes):
    """A stay and the probabilities of its windows."""
    stay = evidence_model.read(notes, "7")
    windows = [window.input_ids for _, window in stay.windows]
    return stay, evidence_model.score_token_ids(windows)


@pytest.fixture
def nothing_kept(read):
    return [np.zeros(len(window.offsets), dtype=bool) for _, window in read[0].windows]
