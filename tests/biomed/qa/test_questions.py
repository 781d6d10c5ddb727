import json

import pandas as pd
import pytest

from biomed.qa.questions import (
    QuestionError,
    evenly,
    locate,
    read_questions,
    split_by_article,
    without_articles,
)
from domainbert.tables import TableError, write_table

CONTEXT = "Insulin was given. The patient had pneumonia, then insulin again."


def squad(*questions, context=CONTEXT, **article):
    return {
        "version": "x",
        "data": [
            {
                **article,
                "paragraphs": [{"context": context, "qas": list(questions)}],
            }
        ],
    }


def question(number, *answers, **more):
    given = [{"text": text, "answer_start": start} for text, start in answers]
    flag = {"is_impossible": not answers}
    return {
        "id": number,
        "question": "What?",
        "answers": given,
        **flag,
        **more,
    }


@pytest.fixture
def write(tmp_path):
    def written(document, name="q.json"):
        text = document if isinstance(document, str) else json.dumps(document)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


class TestSquad:
    def test_version_1(self, write):
        document = squad(
            question(7, ("pneumonia", 35), ("pneumonia,", 35)), title="T"
        )
        read = read_questions(write(document))
        (only,) = read.questions
        assert (only.id, only.text) == ("7", "What?")
        assert only.answers == ("pneumonia", "pneumonia,")
        assert only.answer_spans == ((35, 44), (35, 45))
        assert only.article == "T"

    def test_version_2(self, write):
        document = squad(
            question("a", ("pneumonia", 35), is_impossible=False),
            question("b", is_impossible=True),
            question("c", ("plausible", 3), is_impossible=True),
        )
        found = read_questions(write(document)).questions
        assert [q.answers for q in found] == [("pneumonia",), (), ()]
        assert found[2].answer_spans == ()

    def test_questions_without_a_known_answer_are_left_out(self, write):
        document = squad(
            {"id": "a", "question": "What?"},
            question("b", is_impossible=False),
        )
        with pytest.raises(
            QuestionError,
            match=r"q.json has 2 questions without answers; train",
        ):
            read_questions(write(document))
        known = squad(question("b", is_impossible=False), question("c"))
        assert [q.id for q in read_questions(write(known)).questions] == ["c"]

    def test_answers_that_are_elsewhere_are_searched_for(self, write):
        document = squad(
            question("moved", (" pneumonia", 35)),
            question("near", ("insulin", 48)),
            question("far", ("n", 65)),
            question("absent", ("fever", 0)),
            question("negative", ("pneumonia", -10)),
        )
        read = read_questions(write(document))
        places = {
            q.id: [CONTEXT[slice(*p)] for p in q.answer_spans]
            for q in read.questions
        }
        assert places == {
            "moved": ["pneumonia"],
            "near": ["insulin"],
            "negative": ["pneumonia"],
            "far": ["n"],
            "absent": [],
        }
        # It still counts as the right answer when a model is scored.
        assert read.questions[3].answers == ("fever",)

    def test_an_article_s_name(self, write):
        named = squad(question(1))
        named["data"][0]["paragraphs"][0]["document_id"] = 3
        assert read_questions(write(named)).questions[0].article == "3"
        nameless = [
            read_questions(write(squad(question(1)))).questions[0]
            for _ in range(2)
        ]
        assert nameless[0].article == nameless[1].article


@pytest.mark.parametrize(
    ("answer", "start", "place"),
    [
        ("insulin", None, (51, 58)),
        ("n", None, (1, 2)),
        ("Insulin", 0, (0, 7)),
        (" was ", 7, (8, 11)),
        ("in", 30, None),
        ("fever", None, None),
        ("again.", 900, (59, 65)),
    ],
)
def test_where_an_answer_stands(answer, start, place):
    assert locate(CONTEXT, answer, start) == place


ROWS = {
    "id": ["1", "1", "2", "3"],
    "question": ["What?", "What?", "Why?", "Who?"],
    "context": [CONTEXT, CONTEXT, "x y", "insulin insulin"],
    "answer": ["pneumonia", "Insulin", "", "insulin"],
    "answer_start": [35, 0, None, None],
}


class TestTables:
    @pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
    def test_rows_of_one_id_are_one_question(self, tmp_path, ending):
        path = tmp_path / f"q.{ending}"
        write_table(pd.DataFrame(ROWS), path)
        read = read_questions(path)
        assert [(q.id, q.answers) for q in read.questions] == [
            ("1", ("pneumonia", "Insulin")),
            ("2", ()),
            ("3", ("insulin",)),
        ]
        assert read.questions[0].answer_spans == ((35, 44), (0, 7))

    @pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
    @pytest.mark.parametrize("answer", ["None", "NA", "null", "nan", "038"])
    def test_an_answer_is_text_whatever_it_spells(
        self, tmp_path, ending, answer
    ):
        """Readers that guess types take "None" and "NA" for empty cells and 038 for 38."""
        path = tmp_path / f"q.{ending}"
        table = {
            "id": ["007"],
            "question": ["Which?"],
            "context": [f"x {answer} y"],
        }
        write_table(pd.DataFrame({**table, "answer": [answer]}), path)
        (only,) = read_questions(path).questions
        assert (only.id, only.answers) == ("007", (answer,))
        assert only.answer_spans == ((2, 2 + len(answer)),)

    def test_a_line_that_is_no_row_is_named(self, tmp_path):
        (tmp_path / "q.csv").write_text(
            "question,context\nWhat?,x\nWhy?,x,y,z\n"
        )
        with pytest.raises(QuestionError, match=r"q.csv line 3: "):
            read_questions(tmp_path / "q.csv")

    def test_without_answers_and_without_ids(self, tmp_path):
        path = tmp_path / "q.csv"
        rows = {"question": ["What?"], "context": ["x"]}
        write_table(pd.DataFrame(rows), path)
        with pytest.raises(
            QuestionError, match=r"q.csv has 1 questions without answers"
        ):
            read_questions(path)
        write_table(pd.DataFrame({**rows, "answer": ["x"]}), path)
        assert read_questions(path).questions[0].id == "0"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"context": [CONTEXT, "other", "x", "x"]},
                "q.jsonl line 2: the id '1' belongs to another question too",
            ),
            (
                {"question": ["What?", "What?", " ", "x"]},
                "q.jsonl line 3: question is empty",
            ),
            (
                {"context": [CONTEXT, CONTEXT, None, "x"]},
                "q.jsonl line 3: context is empty",
            ),
            (
                {"answer_start": ["x", 0, None, None]},
                "q.jsonl line 1: answer_start is not a whole number",
            ),
            (
                {"context": [[CONTEXT], CONTEXT, "x", "x"]},
                "line 1: context is not one text",
            ),
            (
                {"answer": [["a"], "b", None, "x"]},
                "line 1: answer is not one text",
            ),
        ],
    )
    def test_bad_rows(self, tmp_path, change, message):
        path = tmp_path / "q.jsonl"
        write_table(pd.DataFrame({**ROWS, **change}), path)
        with pytest.raises(QuestionError, match=message):
            read_questions(path)

    def test_bad_tables(self, tmp_path):
        write_table(
            pd.DataFrame({"question": ["x"], "text": ["y"]}),
            tmp_path / "q.csv",
        )
        with pytest.raises(TableError, match="has no column 'context'"):
            read_questions(tmp_path / "q.csv")
        (tmp_path / "e.csv").write_text("question,context\n")
        with pytest.raises(QuestionError, match=r"e.csv has no questions"):
            read_questions(tmp_path / "e.csv")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            '{"data": [\n  {"x": 1,}\n]}',
            "q.json line 2: not SQuAD JSON; expected data",
        ),
        ("[]", "q.json: not SQuAD JSON; expected data"),
        ({"data": 3}, "not SQuAD JSON"),
        ({"data": [{}]}, "not SQuAD JSON"),
        ({"data": [3]}, "not SQuAD JSON"),
        ({"data": []}, "q.json has no questions"),
        (
            squad(question(1), {"id": "a"}),
            "q.json: not SQuAD JSON after question 2",
        ),
        (
            squad({"id": "a", "question": " "}),
            "q.json question 1: question is empty",
        ),
        (
            squad({"id": "a", "question": ["x"]}),
            "question 1: question is not one text",
        ),
        (squad(question(1), context=" \n"), "question 1: context is empty"),
        (
            squad(question("a", (["x"], 3))),
            "question 1: answer is not one text",
        ),
        (
            squad(question("a", ("x", "y"))),
            "question 1: answer_start is not a whole number",
        ),
        (
            squad(question(1), {**question("1"), "question": "Why?"}),
            "q.json question 2: the id '1' belongs to another question too; give each question an",
        ),
    ],
)
def test_what_cannot_be_read(write, document, message):
    with pytest.raises(QuestionError, match=message):
        read_questions(write(document))


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_questions(tmp_path / "absent.json")
    (tmp_path / "b.json").write_bytes(b'{"data": "\xff"}')
    with pytest.raises(QuestionError, match=r"b.json: not SQuAD JSON"):
        read_questions(tmp_path / "b.json")


class TestSplit:
    def read(self, write, names):
        data = [
            squad(question(n), context=f"text {n}", title=n)["data"][0]
            for n in names
        ]
        return read_questions(write({"data": data}))

    def test_articles_stay_whole_and_on_their_side(self, write):
        names = [f"article {number}" for number in range(400)]
        train, held = split_by_article(self.read(write, names), share=0.2)
        sides = [{q.article for q in side.questions} for side in (train, held)]
        assert not sides[0] & sides[1]
        assert sides[0] | sides[1] == set(names)
        assert 50 < len(held) < 110
        some = self.read(write, names[::3])
        _, again = split_by_article(some, share=0.2)
        assert {q.id for q in again.questions} <= {
            q.id for q in held.questions
        }

    def test_the_share_may_be_all_or_nothing(self, write):
        questions = self.read(write, "abc")
        assert [
            len(side) for side in split_by_article(questions, share=0)
        ] == [3, 0]
        assert [
            len(side) for side in split_by_article(questions, share=1)
        ] == [0, 3]

    def test_what_shares_an_article_or_a_text_is_left_out(self, write):
        one = self.read(write, "abc")
        other = read_questions(
            write(
                squad(question("x"), context="TEXT\n b", title="elsewhere"),
                "other.json",
            )
        )
        assert [q.id for q in without_articles(one, other).questions] == [
            "a",
            "c",
        ]
        same_name = read_questions(
            write(squad(question("x"), title="c"), "other.json")
        )
        assert [q.id for q in without_articles(one, same_name).questions] == [
            "a",
            "b",
        ]


def test_questions_are_taken_evenly_from_articles(write):
    data = [
        squad(*map(question, ids), title=ids)["data"][0]
        for ids in ("abcdef", "g", "h")
    ]
    read = read_questions(write({"data": data}))
    assert [q.id for q in evenly(read, 5)] == ["a", "b", "c", "g", "h"]


@pytest.mark.data
def test_the_shared_files(data_folder):
    general = read_questions(data_folder / "qa" / "squad_v1.1_dev.json")
    assert len(general) == 10570
    covid = read_questions(data_folder / "qa" / "covid_qa_train.json")
    assert len(covid) == 1148
    assert all(question.answer_spans for question in covid.questions)
    train, held = split_by_article(covid, share=0.2)
    assert (len(train), len(held)) == (804, 344)
