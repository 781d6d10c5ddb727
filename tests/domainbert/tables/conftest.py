"""A table with a column of each kind."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def frame():
    """Eleven rows: ids with zeros, texts that try a format's patience, numbers with gaps."""
    texts = [
        *(
            "plain",
            'a "quoted" word, a comma',
            "two\nlines",
            "old\rlines",
            "new\r\nlines",
        ),
        *(
            "tab\there",
            "ünïcödé ☃ 😀",
            " spaces around ",
            "back\\slash \\n",
            "'",
            "a;b|c",
        ),
    ]
    return pd.DataFrame(
        {
            "patient_id": [f"{n:03d}" for n in range(11)],
            "text": texts,
            "age": range(40, 51),
            "score": [0.25 * n if n != 4 else np.nan for n in range(11)],
        }
    )
