import numpy as np
import pandas as pd
import pytest

from clinical import ReadmissionModel, ReadmissionSettings
from clinical.evidence.case import Case

HISTORY = """HISTORY: Patient was admitted with heart failure. He lives alone. He missed furosemide
for 2 weeks. No fever. The mother had pneumonia.

PLAN: Return to clinic. Antibiotic stopped; condition stable. He denies chest pain and dyspnea.
Discharge home with insulin."""
NOTES = [
    HISTORY,
    "Patient left the hospital. He is not in pain. Chronic renal disease, no edema. "
    * 3,
    None,
    "Right kidney failure. Medication compliance was poor.",
]


@pytest.fixture
def notes():
    return list(NOTES)


@pytest.fixture
def evidence_model(network, tokenizer):
    """A tiny model with several windows a note and a calibrator."""
    settings = ReadmissionSettings(
        window=32, c=3.0, calibration=(1.5, -0.4), alert_threshold=0.5
    )
    return ReadmissionModel(network, tokenizer, settings=settings)


@pytest.fixture
def evidence_model_of_words(network, tokenizer):
    """The same with the head reversed, so that words raise the risk."""
    network.classifier.weight.data.neg_()
    settings = ReadmissionSettings(
        window=32, c=3.0, calibration=(1.5, -0.4), alert_threshold=0.5
    )
    return ReadmissionModel(network, tokenizer, settings=settings)


@pytest.fixture
def case(evidence_model, notes):
    """A stay that is explained."""
    return Case(evidence_model, notes)


@pytest.fixture(scope="session")
def stays():
    """Twenty stays of one note of fourteen random sentences, each of another patient."""
    words = "fever pain edema alone failure insulin chronic renal blood chest home weeks".split()
    generator = np.random.default_rng(1)
    texts = [
        ". ".join(" ".join(generator.choice(words, 4)) for _ in range(14))
        + "."
        for _ in range(20)
    ]
    return pd.DataFrame(
        {"patient_id": [str(i) for i in range(20)], "text": texts}
    )
