"""Speed of `ReadmissionModel.predict_many` against the 2019 code and Hugging Face's pipeline.

    python benchmarks/scoring.py --out scoring.json     # everything
    python benchmarks/scoring.py --shape minilm         # one shape
    python benchmarks/scoring.py --quick                # does it run?

Takes 10 minutes on two cores. All three score the same windows with the same weights, in fp32 on
the CPU, in turn, on discharge summaries and on short notes, at the sizes of MiniLM and of
bert-base:

- ours: `predict_many`, from notes to risks;
- padded: as the 2019 code does: every window padded to 512 tokens, two a batch, eager attention;
- pipeline: Hugging Face's text-classification pipeline at the batch size that suits it best.

The other two are handed the windows' texts ready cleaned and cut, and leave out the readmission
rule: what they are charged for is tokenising and the model. The head is random, and so is the
whole encoder at bert-base's shape: what is measured is speed, and that the numbers agree.

How to read the table: "× padded" and "× pipeline" are how many times as fast ours is, within a
round, the median with the smallest and the largest. "differ by" is the largest difference in any
window's probability; a window cut inside a word may be tokenised differently on its own, and such
windows are counted and left out. Tokens include [CLS] and [SEP] but no padding. "GFLOP/s" counts
only the matrix products that the tokens of the windows need (in the last layer, only the [CLS] row
is computed beyond keys and values), so time spent on padding, norms and activations lowers it; "of
matrix rate" compares it with fp32 products of two 1536 × 1536 matrices, right before and right
after. The exit status is 1 if the probabilities differ.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from made_up_notes import SUMMARY, made_up_notes
from measuring import fastest_size, say, seconds_of, take_turns
from reporting import options, rates, ratios, report_comparisons, spread, times
from transformers import AutoModelForSequenceClassification, BertConfig

from clinical import ReadmissionModel
from clinical.stays.stays import clean
from domainbert.encoders.classifier import CLSClassifier
from domainbert.encoders.loading import (
    find_encoder,
    load_model,
    load_tokenizer,
)
from domainbert.text.windows import Windower

OURS = "ours"
PADDED = "padded"
PIPELINE = "pipeline"
MODEL = "model"
MEASURED = (OURS, PADDED, PIPELINE, MODEL)
SUMMARIES = "discharge summaries"
# Word-pieces of a note, about, and how many notes are scored for each stay asked for.
WORKLOADS = {SUMMARIES: (1700, 1), "short notes": (100, 4)}
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
        ours = self.seconds[OURS]
        achieved = rates(self.flop, self.seconds[MODEL])
        gigaflops = [rate / 1e9 for rate in achieved]
        shares = ratios(achieved, self.matrix_rates)
        length = self.tokens / self.stays
        difference = f"{self.worst_difference:.0e}"
        if self.retokenised:
            difference += f" ({self.retokenised} left out)"
        return {
            "shape": self.shape,
            "notes": f"{self.stays} {self.workload} of {length:.0f} tokens",
            "stays/s": spread(rates(self.stays, ours), ".3g"),
            "tokens/s": spread(rates(self.tokens, ours), ".0f"),
            "× padded": times(self.seconds[PADDED], ours),
            "× pipeline": times(self.seconds[PIPELINE], ours),
            "its batch": str(self.pipeline_batch),
            "differ by": difference,
            "GFLOP/s": spread(gigaflops, ".0f"),
            "of matrix rate": spread(shares, ".0%"),
        }

    def measured(self) -> dict[str, Any]:
        """All numbers, for the JSON file."""
        return asdict(self) | self.row()


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
        feed_forward = 2 * rows * hidden * inner
        return keys_and_values + query_and_output + attention + feed_forward

    full_layers = (config.num_hidden_layers - 1) * layer(tokens)
    head = hidden * hidden + hidden * config.num_labels
    return full_layers + layer(1) + head


def matrix_rate(*, repeats: int = 7) -> float:
    """FLOP/s of the best of several fp32 products of two 1536 x 1536 matrices."""
    left, right = torch.randn(2, MATRIX, MATRIX)
    trials = [
        seconds_of(lambda: torch.mm(left, right)) for _ in range(repeats)
    ]
    return 2 * MATRIX**3 / min(trials)


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
        config,
        attn_implementation=attention,
    )
    model.load_state_dict(network.state_dict())
    return model.eval(), load_tokenizer(find_encoder())


def score_padded(
    texts: list[str],
    *,
    model: Any,
    tokenizer: Any,
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
    outputs = pipe(texts, batch_size=batch_size, **options)
    return np.array([output["score"] for output in outputs])


def score_ours(notes: list[str], *, model: ReadmissionModel) -> np.ndarray:
    """Probabilities of the notes' windows, as they stand in their risks."""
    risks = model.predict_many(notes)
    return np.array(
        [window.probability for risk in risks for window in risk.windows]
    )


def make_workload(name: str, *, stays: int) -> Workload:
    """A made-up hospital's discharge summaries or short notes, of about the length wanted."""
    length, notes_a_stay = WORKLOADS[name]
    table = made_up_notes(5 * stays + 20, seed=0)
    is_summary = table["CATEGORY"] == SUMMARY
    is_wanted = is_summary if name == SUMMARIES else ~is_summary
    notes = table.loc[is_wanted, "TEXT"].tolist()
    cleaned = [clean(note) for note in notes]
    windower = Windower(load_tokenizer(find_encoder()))
    parts = windower.split_many(cleaned)
    distances = [abs(part.tokens - length) for part in parts]
    nearest = np.argsort(distances, kind="stable")[: notes_a_stay * stays]
    texts = []
    token_ids = []
    # As they came: in the order of their lengths none would be padded.
    kept = sorted(nearest)
    for number in kept:
        for window in parts[number].windows:
            texts.append(cleaned[number][window.start : window.end])
            token_ids.append(window.input_ids)
    return Workload(
        name,
        notes=[notes[number] for number in kept],
        windows=texts,
        token_ids=token_ids,
    )


def compare(
    shape: str,
    workload: Workload,
    *,
    rounds: int,
    sample: int,
) -> Comparison:
    """Score one workload in all three ways, in turn, after a warm-up on `sample` windows."""
    say(
        f"{shape}, {workload.name}: warming up, and the pipeline's best batch size"
    )
    network = load_network(shape)
    texts = workload.windows
    ours = ReadmissionModel(
        network,
        load_tokenizer(find_encoder()),
        device="cpu",
    )
    ours.predict_windows(workload.token_ids[:sample])
    padded = make_padded(network)
    padded(texts[:2])
    piped = make_piped(network)
    piped(texts[:2], batch_size=1)
    batch = fastest_size(
        lambda size: piped(texts[:sample], batch_size=size),
        PIPELINE_BATCHES,
    )
    matrix_rates: list[float] = []
    ways: dict[str, Callable[[], Any]] = {
        OURS: partial(score_ours, workload.notes, model=ours),
        PADDED: partial(padded, texts),
        PIPELINE: partial(piped, texts, batch_size=batch),
        "matrix before": lambda: matrix_rates.append(matrix_rate()),
        MODEL: partial(ours.predict_windows, workload.token_ids),
        "matrix after": lambda: matrix_rates.append(matrix_rate()),
    }
    results, seconds = take_turns(ways, rounds=rounds)
    worst, retokenised = worst_difference(results, workload)
    lengths = [len(ids) for ids in workload.token_ids]
    products = [multiply_adds(network.config, tokens) for tokens in lengths]
    around_model = np.reshape(matrix_rates, (rounds, 2))
    return Comparison(
        shape=shape,
        workload=workload.name,
        stays=len(workload.notes),
        windows=len(texts),
        tokens=sum(lengths),
        flop=2 * sum(products),
        pipeline_batch=batch,
        worst_difference=worst,
        retokenised=retokenised,
        seconds={name: seconds[name] for name in MEASURED},
        matrix_rates=around_model.mean(axis=1).tolist(),
    )


def make_padded(network: CLSClassifier) -> Callable[..., np.ndarray]:
    """How the 2019 code scores windows."""
    model, tokenizer = twin(network, attention="eager")
    return partial(score_padded, model=model, tokenizer=tokenizer)


def make_piped(network: CLSClassifier) -> Callable[..., np.ndarray]:
    """How Hugging Face's pipeline scores windows."""
    model, tokenizer = twin(network, attention="sdpa")
    pipe = transformers.pipeline(
        "text-classification",
        model=model,
        tokenizer=tokenizer,
        device="cpu",
    )
    return partial(score_piped, pipe=pipe)


def worst_difference(
    results: Mapping[str, np.ndarray],
    workload: Workload,
) -> tuple[float, int]:
    """The largest difference to ours, and the number of windows left out of it."""
    tokenizer = load_tokenizer(find_encoder())
    alone = tokenizer(workload.windows)["input_ids"]
    pairs = zip(alone, workload.token_ids, strict=True)
    is_same = np.array([np.array_equal(new, old) for new, old in pairs])
    reference = np.stack([results[PADDED], results[PIPELINE]])
    differences = np.abs(reference - results[OURS])
    return float(differences[:, is_same].max()), int((~is_same).sum())


def main() -> None:
    """Measure, print the table, write the JSON; exit 1 where the numbers disagree."""
    parser = options(__doc__)
    parser.add_argument(
        "--stays",
        type=int,
        default=10,
        help="at bert-base's shape, more at MiniLM's (10)",
    )
    parser.add_argument("--shape", choices=[*SHAPES, "both"], default="both")
    asked = parser.parse_args()
    rounds = asked.rounds
    sample = SAMPLE
    if asked.quick:
        rounds = 1
        sample = 2
    comparisons = []
    for shape, factor in SHAPES.items():
        if asked.shape not in (shape, "both"):
            continue
        stays = 1 if asked.quick else factor * asked.stays
        for name in WORKLOADS:
            workload = make_workload(name, stays=stays)
            comparisons.append(
                compare(shape, workload, rounds=rounds, sample=sample)
            )
    packages = ("torch", "transformers")
    report_comparisons(comparisons, packages=packages, out=asked.out)
    worst = max(comparison.worst_difference for comparison in comparisons)
    if worst > TOLERANCE:
        sys.exit(
            f"the three ways differ by {worst:.1e}, more than {TOLERANCE:.0e}"
        )


if __name__ == "__main__":
    main()
