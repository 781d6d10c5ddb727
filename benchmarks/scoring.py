"""Stays per second of `ReadmissionModel.predict_many` against two other ways, in one run.

All three score the same windows with the same weights, in fp32 on the CPU:

- ours: `predict_many`, from notes to risks;
- padded: as the 2019 code does: every window padded to 512 tokens, two a batch, eager attention;
- pipeline: Hugging Face's text-classification pipeline at the batch size that suits it best.

The other two are handed the windows' texts ready cleaned and cut, and leave out the readmission
rule: what they are charged for is tokenising and the model. The head is random, and so is the
whole encoder at bert-base's shape: what is measured is speed, and that the numbers agree.

    python benchmarks/scoring.py --out scoring.json
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from reporting import options, report, say, seconds_of, spread, versions_of
from transformers import AutoModelForSequenceClassification, BertConfig

from clinical import ReadmissionModel
from clinical.datasets.hospital import synthesize
from clinical.stays.stays import clean
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.loading import (
    find_encoder,
    load_model,
    load_tokenizer,
)
from domainbert.text.windows import Windower

# Word-pieces of a note, about, and how many notes are scored for each stay asked for.
WORKLOADS = {"discharge summaries": (1700, 1), "short notes": (100, 4)}
# How many stays are scored for each asked for, so that both shapes take about as long.
SHAPES = {"minilm": 4, "bert-base": 1}
LIMIT = 512  # tokens of a window
PIPELINE_BATCHES = (1, 2, 4, 8, 16, 32)
SAMPLE = 24  # windows on which the pipeline's batch size is chosen
MATRIX = 1536  # rows and columns
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Workload:
    """Notes, one a stay, and their windows as texts and as token ids, note after note."""

    name: str
    notes: list[str] = field(repr=False)
    windows: list[str] = field(repr=False)
    token_ids: list[np.ndarray] = field(repr=False)


@dataclass(frozen=True)
class Comparison:
    """What was measured for one shape and one workload; lists hold one value a round.

    Attributes:
        shape: of the encoder.
        workload: its name.
        stays: how many, one note each.
        windows: how many.
        tokens: of all windows, [CLS] and [SEP] counted, padding not.
        flop: of our model's matrix products over all windows, padding not counted.
        pipeline_batch: the batch size that suited the pipeline best.
        worst_difference: of a window's probability, between ours and the other two.
        retokenised: windows left out of that, as their text by itself gives other tokens.
        seconds: of "ours", "padded" and "pipeline", and of our "model" alone.
        matrix_rates: FLOP/s of matrix products, mean of right before and right after "model".
    """

    shape: str
    workload: str
    stays: int
    windows: int
    tokens: int
    flop: int
    pipeline_batch: int
    worst_difference: float
    retokenised: int
    seconds: dict[str, list[float]]
    matrix_rates: list[float]

    def row(self) -> dict[str, str]:
        """A line of the table."""
        seconds = {
            method: np.array(values) for method, values in self.seconds.items()
        }
        achieved = self.flop / seconds["model"]
        left_out = f" ({self.retokenised} left out)"
        return {
            "shape": self.shape,
            "notes": f"{self.stays} {self.workload} of {self.tokens / self.stays:.0f} tokens",
            "stays/s": spread(self.stays / seconds["ours"], ".3g"),
            "tokens/s": spread(self.tokens / seconds["ours"], ".0f"),
            "× padded": spread(seconds["padded"] / seconds["ours"], ".2f"),
            "× pipeline": spread(seconds["pipeline"] / seconds["ours"], ".2f"),
            "its batch": str(self.pipeline_batch),
            "differ by": f"{self.worst_difference:.0e}"
            + left_out * bool(self.retokenised),
            "GFLOP/s": spread(achieved / 1e9, ".0f"),
            "of matrix rate": spread(achieved / self.matrix_rates, ".0%"),
        }


def multiply_adds(config: BertConfig, tokens: int) -> int:
    """Multiply-adds of the matrix products that `CLSClassifier` computes for one window.

    Its last layer makes keys and values of all tokens but all else for CLS alone, and no more
    than that is counted. Embeddings, norms, softmax and activations are left out.

    Args:
        config: the model's.
        tokens: of the window, special ones counted.
    """
    hidden = config.hidden_size
    inner = config.intermediate_size

    def layer(rows: int) -> int:
        keys_and_values = 2 * tokens * hidden * hidden
        query_and_output = 2 * rows * hidden * hidden
        attention = 2 * rows * tokens * hidden
        return (
            keys_and_values
            + query_and_output
            + attention
            + 2 * rows * hidden * inner
        )

    head = hidden * hidden + hidden * config.num_labels
    return (config.num_hidden_layers - 1) * layer(tokens) + layer(1) + head


def matrix_rate(*, repeats: int = 7) -> float:
    """FLOP/s of the best of several fp32 products of two 1536 x 1536 matrices."""
    left, right = torch.randn(2, MATRIX, MATRIX)
    return (
        2
        * MATRIX**3
        / min(
            seconds_of(lambda: torch.mm(left, right)) for _ in range(repeats)
        )
    )


def load_network(shape: str) -> CLSClassifier:
    """The shipped encoder under a random head, or random weights at bert-base's shape."""
    torch.manual_seed(0)
    if shape == "minilm":
        model = load_model(find_encoder(), CLSClassifier, num_labels=1)
    else:
        model = CLSClassifier(
            BertConfig(num_labels=1, attn_implementation="sdpa")
        )
    # With probabilities all alike, that they agree would mean nothing.
    torch.nn.init.normal_(model.classifier.weight, std=0.2)
    return model.eval()


def twin(network: CLSClassifier, *, attention: str) -> tuple[Any, Any]:
    """Hugging Face's own class over the same weights, and a tokenizer of its own.

    A tokenizer remembers the padding of the last call, so it is not shared.
    """
    config = copy.deepcopy(network.config)
    model = AutoModelForSequenceClassification.from_config(
        config, attn_implementation=attention
    )
    model.load_state_dict(network.state_dict())
    return model.eval(), load_tokenizer(find_encoder())


def score_padded(
    texts: list[str], *, model: Any, tokenizer: Any
) -> np.ndarray:
    """Probabilities of windows, each padded to the limit, in batches of two."""
    logits = []
    with torch.no_grad():
        for start in range(0, len(texts), 2):
            inputs = tokenizer(
                texts[start : start + 2],
                padding="max_length",
                truncation=True,
                max_length=LIMIT,
                return_tensors="pt",
            )
            logits.append(model(**inputs).logits[:, 0])
    return torch.sigmoid(torch.cat(logits)).numpy()


def score_piped(texts: list[str], *, pipe: Any, batch_size: int) -> np.ndarray:
    """Probabilities of windows from Hugging Face's pipeline."""
    options = {
        "truncation": True,
        "max_length": LIMIT,
        "function_to_apply": "sigmoid",
    }
    return np.array(
        [
            output["score"]
            for output in pipe(texts, batch_size=batch_size, **options)
        ]
    )


def score_ours(notes: list[str], *, model: ReadmissionModel) -> np.ndarray:
    """Probabilities of the notes' windows, as they stand in their risks."""
    risks = model.predict_many(notes)
    return np.array(
        [window.probability for risk in risks for window in risk.windows]
    )


def make_workload(name: str, *, stays: int) -> Workload:
    """A made-up hospital's discharge summaries or short notes, of about the length wanted."""
    length, per_stay = WORKLOADS[name]
    with tempfile.TemporaryDirectory() as folder:
        synthesize(folder, stays=5 * stays + 20, seed=0)
        table = pd.read_csv(
            Path(folder) / "NOTEEVENTS.csv", usecols=["CATEGORY", "TEXT"]
        )
    chosen = (table["CATEGORY"] == "Discharge summary") == (
        name == "discharge summaries"
    )
    notes = table.loc[chosen, "TEXT"].tolist()
    parts = Windower(load_tokenizer(find_encoder())).split_many(
        [clean(note) for note in notes]
    )
    nearest = sorted(
        range(len(notes)), key=lambda i: abs(parts[i].tokens - length)
    )
    kept = sorted(
        nearest[: per_stay * stays]
    )  # as they came: in order of length none would pad
    windows = [
        (clean(notes[i]), window) for i in kept for window in parts[i].windows
    ]
    return Workload(
        name,
        notes=[notes[i] for i in kept],
        windows=[text[window.start : window.end] for text, window in windows],
        token_ids=[window.input_ids for _, window in windows],
    )


def compare(
    shape: str, workload: Workload, *, rounds: int, sample: int
) -> Comparison:
    """Score one workload in all three ways, in turn, after a warm-up on `sample` windows."""
    say(
        f"{shape}, {workload.name}: warming up, and the pipeline's best batch size"
    )
    network = load_network(shape)
    texts = workload.windows
    ours = ReadmissionModel(
        network, load_tokenizer(find_encoder()), device="cpu"
    )
    ours.score_token_ids(workload.token_ids[:sample])
    model, tokenizer = twin(network, attention="eager")
    padded = partial(score_padded, model=model, tokenizer=tokenizer)
    padded(texts[:2])
    model, tokenizer = twin(network, attention="sdpa")
    pipe = transformers.pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device="cpu"
    )
    piped = partial(score_piped, pipe=pipe)
    piped(texts[:2], batch_size=1)
    trials = [
        seconds_of(partial(piped, texts[:sample], batch_size=size))
        for size in PIPELINE_BATCHES
    ]
    batch = PIPELINE_BATCHES[int(np.argmin(trials))]

    ways: dict[str, Callable[[], np.ndarray]] = {
        "ours": partial(score_ours, workload.notes, model=ours),
        "padded": partial(padded, texts),
        "pipeline": partial(piped, texts, batch_size=batch),
        "model": partial(ours.score_token_ids, workload.token_ids),
    }
    results, seconds, matrix_rates = race(ways, rounds=rounds)
    worst, retokenised = worst_difference(results, workload)
    lengths = [len(ids) for ids in workload.token_ids]
    return Comparison(
        shape=shape,
        workload=workload.name,
        stays=len(workload.notes),
        windows=len(texts),
        tokens=sum(lengths),
        flop=2
        * sum(multiply_adds(network.config, tokens) for tokens in lengths),
        pipeline_batch=batch,
        worst_difference=worst,
        retokenised=retokenised,
        seconds=seconds,
        matrix_rates=matrix_rates,
    )


def race(
    ways: Mapping[str, Callable[[], np.ndarray]], *, rounds: int
) -> tuple[dict[str, np.ndarray], dict[str, list[float]], list[float]]:
    """Run each way in turn, `rounds` times.

    Returns:
        The last result of each way, its seconds in each round, and the matrix rate around the
        last of the ways in each round.
    """
    results: dict[str, np.ndarray] = {}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    rates: list[float] = []
    for number in range(1, rounds + 1):
        say(f"  round {number} of {rounds}")
        for name, action in ways.items():
            before = matrix_rate()
            start = time.perf_counter()
            results[name] = action()
            seconds[name].append(time.perf_counter() - start)
        rates.append((before + matrix_rate()) / 2)
    return results, seconds, rates


def worst_difference(
    results: Mapping[str, np.ndarray], workload: Workload
) -> tuple[float, int]:
    """The largest difference to ours, and the number of windows left out of it."""
    again = load_tokenizer(find_encoder())(workload.windows)["input_ids"]
    pairs = zip(again, workload.token_ids, strict=True)
    same = np.array([np.array_equal(new, old) for new, old in pairs])
    reference = np.stack([results["padded"], results["pipeline"]])
    return float(np.abs(reference - results["ours"])[:, same].max()), int(
        (~same).sum()
    )


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the numbers disagree."""
    parser = options("Time ReadmissionModel against two other ways.")
    parser.add_argument(
        "--stays",
        type=int,
        default=10,
        help="at bert-base's shape, more at MiniLM's (10)",
    )
    parser.add_argument("--shape", choices=[*SHAPES, "both"], default="both")
    asked = parser.parse_args()
    rounds, sample = (1, 2) if asked.quick else (asked.rounds, SAMPLE)
    comparisons = [
        compare(
            shape,
            make_workload(
                name, stays=1 if asked.quick else factor * asked.stays
            ),
            rounds=rounds,
            sample=sample,
        )
        for shape, factor in SHAPES.items()
        if asked.shape in (shape, "both")
        for name in WORKLOADS
    ]
    report(
        [comparison.row() for comparison in comparisons],
        setting={
            "threads": torch.get_num_threads(),
            **versions_of("torch", "transformers"),
        },
        measured={"comparisons": [asdict(c) | c.row() for c in comparisons]},
        out=asked.out,
    )
    worst = max(c.worst_difference for c in comparisons)
    if worst > TOLERANCE:
        sys.exit(
            f"the three ways differ by {worst:.1e}, more than {TOLERANCE:.0e}"
        )


if __name__ == "__main__":
    main()
