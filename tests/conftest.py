"""Tiny models made in code, the real data where they are, and no network for anyone."""

from __future__ import annotations

import gc
import itertools
import os
import re
import socket
import subprocess
import sys
import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest

# `recipes` and `benchmarks` are not installed. At the end of the path: the packages are.
ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT), str(ROOT / "benchmarks")]

# Threads gain nothing in tiny models, and lose much where the cores are busy: neither here nor in
# the notebooks, commands and servers that tests start.
for library in ("OMP", "OPENBLAS", "MKL", "RAYON"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

FUZZ_INPUTS = 2620  # texts, stays and rows of tests/fuzz/test_fuzz.py; FUZZ asks for more

WORDS = """
admitted afebrile alone and antibiotic blood breath chest chronic clinic compliance condition
denies discharge disease dyspnea edema failure fever for from furosemide had has heart history home
hospital in insulin kidney left lives medication missed mother no not of on pain patient pneumonia
pulmonary renal return right shortness stable the to treated was weeks wife with without
. , : ; - ! ? ( ) / 0 1 2 3 4 5 6 7 8 9 a b c d e f g h i j k l m n o p q r s t u v w x y z
""".split()


def pytest_addoption(parser):
    times = max(1, int(os.environ.get("FUZZ", 0)) // FUZZ_INPUTS)
    parser.addoption(
        "--fuzz",
        type=int,
        default=times,
        help="times as many cases in tests/fuzz",
    )


def pytest_terminal_summary(terminalreporter):
    """One line that counts the skipped tests by their reason."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    if reasons:
        counts = "; ".join(f"{n} {why}" for why, n in reasons.most_common())
        terminalreporter.write_line(f"skipped {reasons.total()}: {counts}")


def pytest_collection_modifyitems(items):
    """The notebooks first: they take longest, and none should run alone at the end."""
    items.sort(key=lambda item: item.path.name != "test_notebooks.py")


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Refuse every connection and name look-up that leaves this machine."""
    connect, look_up = socket.socket.connect, socket.getaddrinfo
    local = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", None)

    def guarded(self, address):
        if self.family != socket.AF_UNIX and address[0] not in local:
            msg = f"a test tried to reach the network: {address}"
            raise RuntimeError(msg)
        return connect(self, address)

    def guarded_look_up(host, *args, **options):
        if host not in local:
            msg = f"a test tried to look up {host}"
            raise RuntimeError(msg)
        return look_up(host, *args, **options)

    socket.socket.connect, socket.getaddrinfo = guarded, guarded_look_up
    yield
    socket.socket.connect, socket.getaddrinfo = connect, look_up


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny models gain nothing from threads, and lose much where the cores are busy."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def quick_collections():
    """Leave what was loaded before out of the garbage collections that trainers ask for.

    Each looks through all objects of the libraries otherwise, which takes longer than a step of
    training a tiny model.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The public data sets, or skip."""
    here = Path(__file__).parents[1] / ".." / "shared" / "data"
    folder = Path(os.environ.get("DOMAINBERT_DATA", here)).resolve()
    if not folder.is_dir():
        pytest.skip(
            "needs the public data: ../shared/data or $DOMAINBERT_DATA"
        )
    return folder


def make_tokenizer(*, lower_case: bool = True):
    """A WordPiece tokenizer over a few clinical words, letters and digits."""
    from transformers import BertTokenizer

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"]
    tokens = list(dict.fromkeys([*special, *WORDS, *pieces]))
    vocab = {token: number for number, token in enumerate(tokens)}
    return BertTokenizer(
        vocab=vocab, do_lower_case=lower_case, model_max_length=512
    )


def make_random(
    model_class,
    tokenizer=None,
    *,
    head,
    seed=0,
    positions=64,
    layers=2,
    **settings,
):
    """A random BERT of a few thousand weights with the head of a class, strong enough to disagree.

    Its vocabulary is that of a tokenizer, by default the tiny one.
    """
    import torch
    from transformers import BertConfig

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer or make_tokenizer()),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
        attn_implementation="sdpa",
        **settings,
    )
    network = model_class(config).eval()
    torch.nn.init.normal_(getattr(network, head).weight, std=1.0)
    for parameter in network.base_model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.15)
    return network


def make_network(*, labels=1, **settings):
    """A random readmission classifier."""
    from domainbert.encoders.classifier import CLSClassifier

    return make_random(
        CLSClassifier, head="classifier", num_labels=labels, **settings
    )


@pytest.fixture(scope="session")
def random_network():
    """`make_random`, for tests that need their own."""
    return make_random


@pytest.fixture(scope="session")
def tokenizer():
    """The tiny tokenizer."""
    return make_tokenizer()


@pytest.fixture
def network():
    """The tiny network: 64 positions, two layers."""
    return make_network()


@pytest.fixture
def model(network, tokenizer):
    """A tiny readmission model with windows of 64 tokens."""
    from clinical import ReadmissionModel

    return ReadmissionModel(network, tokenizer)


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory) -> Path:
    """A folder with a tiny random encoder (no head) and its tokenizer."""
    folder = tmp_path_factory.mktemp("encoder")
    make_network().bert.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def write_adapter(tiny_encoder):
    """Writes a model folder of a class of `Embedder`: a random adapter on the tiny encoder."""

    def write(model_class, folder):
        import torch

        from domainbert.encoders.adapters import add_lora
        from domainbert.training.settings import TrainingSettings

        model = model_class.untrained(
            tiny_encoder, training=TrainingSettings()
        )
        network = add_lora(model.network, 16)
        for name, parameter in network.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        model.finished(network, full=False).save_pretrained(folder)
        return folder

    return write


@pytest.fixture(scope="session")
def new_tokenizer():
    """`make_tokenizer`, for tests that need their own."""
    return make_tokenizer


@pytest.fixture(scope="session")
def new_network():
    """`make_network`, for tests that need their own."""
    return make_network


def mount(*words):
    command = ["mount", *map(str, words)]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.fixture(scope="session")
def read_only():
    """Makes a folder read-only during a block, also for root, who ignores its mode."""

    @contextmanager
    def make(folder):
        if os.getuid():
            folder.chmod(0o555)
            yield
            folder.chmod(0o755)
            return
        if mount("--bind", folder, folder):
            pytest.skip("this user cannot mount a folder")
        try:
            assert mount("-o", "remount,bind,ro", folder) == 0
            yield
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)

    return make


@pytest.fixture
def refused_in_one_line(read_only, tmp_path):
    """Runs a command that writes `--out` in a read-only folder; it must end with one line."""
    from typer.testing import CliRunner

    def run(app, words):
        folder = tmp_path / "locked"
        folder.mkdir()
        with read_only(folder):
            out = ["--out", str(folder / "out")]
            result = CliRunner().invoke(app, [*map(str, words), *out])
            assert list(folder.iterdir()) == []
        assert result.exit_code == 1, result.output
        line = result.stderr.splitlines()[-1]
        assert line.startswith(f"error: {folder}")
        assert re.search("(?i)read-only file system|permission denied", line)

    return run


FILE_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}
DEAD = 86


def changes_file(event, arguments):
    """Whether an event of Python's audit is a change of a file or folder."""
    if event == "open":
        flags = arguments[2]
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in FILE_CHANGES


def fork_that_dies(run, moment):
    """The exit code of a fork that ends at this change of a file, without cleaning up."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    count = itertools.count(1)

    def watch(event, arguments):
        if changes_file(event, arguments) and next(count) == moment:
            os._exit(DEAD)

    sys.addaudithook(watch)
    try:
        run()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@pytest.fixture(scope="session")
def deaths():
    """Runs a function in forks that die at their first, second, ... change of a file.

    Yields after each death, and ends when a run has reached its end.
    """

    def each(run):
        for moment in itertools.count(1):
            code = fork_that_dies(run, moment)
            if code == 0:
                return
            assert code == DEAD, "the run failed"
            yield moment

    return each


# A busy machine is no reason to fail. FUZZ asks for more examples.
examples = 1000 if os.environ.get("FUZZ") else 50
hypothesis.settings.register_profile(
    "patient", deadline=None, max_examples=examples
)
hypothesis.settings.load_profile("patient")
