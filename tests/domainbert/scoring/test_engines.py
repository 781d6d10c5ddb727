"""A real local Ray and a real local Spark give what one process gives."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from clinical.risk.task import ReadmissionTask
from domainbert.errors import UserError
from domainbert.scoring import engines, score_frame

sys.path.insert(0, str(Path(__file__).parent))
from loaded_risk import LoadedRisk
from word_count import OrderedWords, WordCount

HERE = Path(__file__).parent
HAS_RAY = importlib.util.find_spec("ray") is not None
HAS_SPARK = importlib.util.find_spec("pyspark") is not None
HAS_JAVA = bool(shutil.which("java") or os.environ.get("JAVA_HOME"))
needs_ray = pytest.mark.skipif(
    not HAS_RAY, reason="no Ray: pip install '.[ray]'"
)
needs_spark = pytest.mark.skipif(
    not (HAS_SPARK and HAS_JAVA),
    reason="no Spark (pip install '.[spark]'), or no Java",
)


@pytest.fixture(scope="module")
def worker_path():
    """Workers import the tasks of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        path = os.pathsep.join(
            [str(HERE), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        )
        patch.setenv("PYTHONPATH", path)
        yield patch


@pytest.fixture(scope="module")
def ray_data(worker_path):
    worker_path.setenv("RAY_USAGE_STATS_ENABLED", "0")
    worker_path.setenv(
        "RAY_worker_niceness", "0"
    )  # the tests beside it would starve it
    import ray

    ray.init(
        num_cpus=3,  # two workers, and one CPU for reading
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=100_000_000,
        logging_level="ERROR",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


@pytest.fixture(scope="module")
def spark(worker_path):
    worker_path.setenv("PYSPARK_PYTHON", sys.executable)
    worker_path.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # A session of seconds gains nothing from the second compiler of Java.
    worker_path.setenv(
        "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
    from pyspark.sql import SparkSession

    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "512m",
    }
    session = (
        SparkSession.builder.master("local[1]")
        .config(map=options)
        .getOrCreate()
    )
    yield session
    session.stop()


def notes():
    """Stays whose notes lie apart, spelled in two ways, and notes without a stay."""
    texts = [
        f"Patient admitted with chest pain {i}. " * (1 + i % 7)
        for i in range(60)
    ]
    texts[7], texts[8] = None, ""
    stays = [
        None if i % 20 == 5 else f"s{i % 13}" + " " * (i % 2)
        for i in range(60)
    ]
    patients = [None if s is None else f"p{s.strip()}" for s in stays]
    return pd.DataFrame(
        {"patient_id": patients, "stay_id": stays, "text": texts}
    )


def tuples(frame):
    return [
        tuple(None if pd.isna(c) else c for c in row)
        for row in frame.itertuples(index=False)
    ]


def in_order(frame):
    frame = frame.assign(
        **{
            n: frame[n].fillna("")
            for n in ("stay_id", "patient_id")
            if n in frame
        }
    )
    names = [
        name
        for name in ("stay_id", "n_tokens", "row", "words")
        if name in frame
    ]
    return (
        frame.sort_values(names).reset_index(drop=True).convert_dtypes()
    )  # one missing value


def check_same(found, expected):
    assert list(found.columns) == list(expected.columns)
    pd.testing.assert_frame_equal(
        in_order(found),
        in_order(expected),
        check_dtype=False,
        atol=1e-5,
        rtol=0,
    )


@pytest.mark.slow
@needs_spark
def test_spark_gives_what_one_process_gives(spark, model, tmp_path):
    from domainbert.scoring.engines import score_spark as score

    frame = notes()
    names = "patient_id string, stay_id string, text string"
    table = spark.createDataFrame(tuples(frame), schema=names)
    task = LoadedRisk(model, tmp_path)
    found = score(table.repartition(5), task)
    expected = score_frame(task, frame)
    assert found.columns == list(expected.columns)
    check_same(found.toArrow().to_pandas(), expected)
    assert len(list(tmp_path.iterdir())) == 1  # load, for 4 partitions
    # In the order of the table, by which the words are weighed.
    check_same(
        score(table, OrderedWords()).toArrow().to_pandas(),
        score_frame(OrderedWords(), frame),
    )
    rows = (
        score(table.select("text"), WordCount(), keep=["text"])
        .toArrow()
        .to_pandas()
    )
    assert rows["row"].is_unique
    texts = frame[["text"]].replace("", None)
    expected = score_frame(WordCount(), texts, keep=["text"]).drop(
        columns="row"
    )
    assert sorted(tuples(rows.drop(columns="row")), key=str) == sorted(
        tuples(expected), key=str
    )
    kinds = "stay_id string, text array<string>"
    lists = spark.createDataFrame([("1", ["fever", "pain"])], schema=kinds)
    both = score(lists, ReadmissionTask(model)).toArrow().to_pandas()
    assert both["score"][0] == pytest.approx(
        model.predict(["fever", "pain"]).score, abs=1e-5
    )


@pytest.mark.slow
@needs_ray
def test_ray_gives_what_one_process_gives(ray_data, model, tmp_path):
    from domainbert.scoring.engines import score_ray as score

    frame = notes()
    task = LoadedRisk(model, tmp_path)
    found = score(
        ray_data.from_pandas(frame), task, workers=2, partitions=6
    ).materialize()
    assert (
        found.num_blocks() > 1
    )  # the partitions stay apart, so that two workers can share them
    check_same(found.to_pandas(), score_frame(task, frame))
    assert 1 <= len(list(tmp_path.iterdir())) <= 2  # loads, for 6 partitions


@pytest.mark.slow
@needs_ray
def test_ray_scores_rows_without_a_shuffle(ray_data):
    from domainbert.scoring.engines import score_ray as score

    frame = notes()[["text"]]
    rows = score(
        ray_data.from_pandas(frame), WordCount(), keep=["text"], workers=1
    ).to_pandas()
    assert rows["row"].is_unique
    rows = rows.sort_values("row").drop(columns="row").reset_index(drop=True)
    expected = score_frame(WordCount(), frame, keep=["text"]).drop(
        columns="row"
    )
    assert tuples(rows) == tuples(expected)


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param("ray", marks=needs_ray),
        pytest.param("spark", marks=needs_spark),
    ],
)
def test_other_tables_are_refused(engine):
    kind = {"ray": "Ray dataset", "spark": "Spark DataFrame"}[engine]
    with pytest.raises(UserError, match=f"expected a {kind}, got DataFrame"):
        getattr(engines, f"score_{engine}")(notes(), WordCount())


@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_a_missing_engine_is_a_line_with_its_extra(engine, monkeypatch):
    package = {"ray": "ray", "spark": "pyspark"}[engine]
    for name in [
        n for n in sys.modules if n == package or n.startswith(f"{package}.")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UserError,
        match=rf"no {package}: run pip install '\.\[{engine}\]'",
    ):
        getattr(engines, f"score_{engine}")(notes(), WordCount())


def test_an_old_ray_is_a_line_with_its_extra(monkeypatch):
    """A Ray before 2.55 has no `monotonically_increasing_id`."""
    expressions = pytest.importorskip("ray.data.expressions")
    monkeypatch.delattr(expressions, "monotonically_increasing_id")
    with pytest.raises(
        UserError, match=r"ray is too old: run pip install '\.\[ray\]'"
    ):
        engines.score_ray(notes(), WordCount())
