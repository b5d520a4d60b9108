"""Problems out: lists, files of problems that our reader, TRL and verl take, the table as CSV, and single samples."""

import csv
import json
from pathlib import Path

import polars as pl
import pytest

import offleash as ol
from offleash.data.run_folder import create_run
from offleash.problems.problem import Problem, table
from offleash.problems.read import read_problems
from tests.browser.world import make_pair
from tests.cli.command import offleash, refused
from tests.comparing.world import write_log
from tests.places import EXAMPLES

COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")
FEW = ("--replicates", "100")
K = 16
PROBLEMS = [
    Problem("sum", "What is 1/3 + 1/6?", r"\frac{1}{2}", "own", verifier="math", prompt="Add 1/3 and 1/6."),
    Problem("speed", "90 km in 50 minutes?", "30", "own", verifier="number", details={"unit": "m/s"}),
    Problem("planet", "Largest?", "B", "own", 1 / 3, "choice", details={"choices": ["Mars", "Jupiter", "Venus"]}),
    Problem("=cmd|'/C calc'!A0", "Hostile \x1b[31mid?", "-5", "own", verifier="math"),
    Problem("kept", "2 + 2?", "4", "own", verifier="math"),
]


def folder(path: Path, reached: dict[str, int]) -> Path:
    """A run with so many correct samples of each problem, the first ones."""
    rows = [
        (problem.problem, index, "correct" if index < reached.get(problem.problem, 0) else "wrong")
        for problem in PROBLEMS
        for index in range(K)
    ]
    frame = pl.DataFrame(rows, schema=["problem", "index", "verdict"], orient="row")
    with create_run(path, path.name, table(PROBLEMS), {}) as run:
        texts = frame.with_columns(text="text \x1b]0;title\x07of " + pl.col("problem") + pl.format(" {}", "index"))
        run.write_samples(texts.select("problem", "index", "text"))
        run.write_verdicts("tool", frame.with_columns(answer=pl.lit("1\x1b[2J")))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Lost: sum (12 successes), the hostile id (9), planet (1). Gained: speed. The rate of `kept` rose."""
    place = tmp_path_factory.mktemp("pair")
    hostile = PROBLEMS[3].problem
    base = folder(place / "base", {"sum": 12, "planet": 1, hostile: 9, "kept": 1})
    return base, folder(place / "rl", {"speed": 2, "kept": 16})


def test_a_list_is_printed_in_the_order_of_p(pair: tuple[Path, Path]) -> None:
    shown = offleash("compare", *pair, "--list", "lost", *FEW)
    assert shown.code == 0, shown.err
    assert "3 problems lost: base reaches them within 16 samples (rule seen) and rl does not; 2 significant" in (
        " ".join(shown.out.split())
    )
    lines = [line for line in shown.out.splitlines() if " of 16" in line]
    assert [line.split()[0] for line in lines] == ["sum", "=cmd|'/C", "planet"]
    assert "\x1b" not in shown.out
    listed = offleash("compare", *pair, "--list", "lost", "--json", *FEW).json["listed"]
    assert listed == {"list": "lost", "ids": ["sum", PROBLEMS[3].problem, "planet"], "path": None}


@pytest.mark.parametrize(
    ("name", "ids"), [("gained", ["speed"]), ("rose", ["kept"]), ("fell", ["sum", PROBLEMS[3].problem])]
)
def test_the_other_lists(pair: tuple[Path, Path], name: str, ids: list[str]) -> None:
    assert ol.compare(*pair, list=name, replicates=100).to_dict()["listed"]["ids"] == ids


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_written_list_reads_back_as_the_same_problems(pair: tuple[Path, Path], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"lost.{ending}"
    done = offleash("compare", *pair, "--list", "lost", "--out", path, *FEW)
    assert f"Written to {path}" in done.out.replace("\n", "")
    again = read_problems(path).frame
    original = table(PROBLEMS)
    kept = original.filter(pl.col("problem").is_in(again["problem"].to_list()))
    order = ["problem", "hash", "question", "gold", "benchmark", "guess", "verifier", "details", "images"]
    assert again.select(order).sort("problem").equals(kept.select(order).sort("problem"))
    prompts = dict(again.select("problem", "prompt").iter_rows())
    assert prompts["sum"] == "Add 1/3 and 1/6."
    assert "\\boxed" in prompts[PROBLEMS[3].problem]  # as the reader of a user's file would ask


def test_a_written_list_has_the_columns_of_trl_and_verl(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "lost.jsonl"
    offleash("compare", *pair, "--list", "lost", "--out", path, *FEW)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({tuple(row) for row in rows}) == 1  # one schema, whatever the verifier
    first = rows[0]
    assert first["prompt"] == [{"role": "user", "content": "Add 1/3 and 1/6."}]
    assert first["solution"] == first["answer"] == first["reward_model"]["ground_truth"] == r"\frac{1}{2}"
    assert first["data_source"] == "own"
    info = first["extra_info"]
    assert (info["index"], info["split"], info["class"], info["c_before"], info["c_after"]) == (0, "lost", "S", 12, 0)
    offleash("compare", *pair, "--list", "lost", "--out", tmp_path / "lost.parquet", *FEW)
    assert pl.read_parquet(tmp_path / "lost.parquet").to_dicts() == rows


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_datasets_loads_a_written_list_as_trl_and_verl_do(pair: tuple[Path, Path], tmp_path: Path, kind: str) -> None:
    datasets = pytest.importorskip("datasets", reason="the loader of TRL and verl is not installed")
    path = tmp_path / f"lost.{'jsonl' if kind == 'json' else kind}"
    offleash("compare", *pair, "--list", "lost", "--out", path, *FEW)
    loaded = datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded[0]["prompt"] == [{"role": "user", "content": "Add 1/3 and 1/6."}]
    assert loaded[0]["reward_model"]["ground_truth"] == r"\frac{1}{2}"


def test_a_written_list_can_be_drawn_and_checked(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "lost.jsonl"
    offleash("compare", *pair, "--list", "lost", "--out", path, *FEW)
    run = ol.draw(path, f"scripted:{EXAMPLES / 'sums.json'}", k=4, out=tmp_path / "run")
    assert run.samples == 12
    assert ol.check(path, jobs=1).ok


def test_what_the_second_run_knows_of_a_problem_is_written_too(pair: tuple[Path, Path], tmp_path: Path) -> None:
    asked = {problem.problem: problem.question for problem in PROBLEMS}
    rows = [
        {"id": name, "question": question, "response": "x", "correct": name in ("sum", "kept")}
        for name, question in asked.items()
        for _ in range(K)
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    offleash("compare", log, pair[1], "--list", "lost", "--out", tmp_path / "lost.jsonl", *FEW)
    written = json.loads((tmp_path / "lost.jsonl").read_text())
    assert (written["problem"], written["gold"], written["verifier"]) == ("sum", r"\frac{1}{2}", "math")


def test_counts_have_no_questions_to_write(tmp_path: Path) -> None:
    path = tmp_path / "lost.jsonl"
    refused(offleash("compare", *COUNTS, "--list", "lost", "--out", path, *FEW), "hold no questions", "--csv FILE")
    assert not path.exists()


def test_problems_without_a_gold_answer_are_written_with_a_note(tmp_path: Path) -> None:
    base = write_log(tmp_path / "base.jsonl", [[True] * 8, [True] * 8])
    rl = write_log(tmp_path / "rl.jsonl", [[False] * 8, [True] * 8])
    shown = offleash("compare", base, rl, "--list", "lost", "--out", tmp_path / "lost.jsonl", *FEW)
    assert "1 problem without a gold answer, which draw and train need." in " ".join(shown.out.split())


def test_the_table_is_written_and_no_cell_is_a_formula(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "problems.csv"
    assert f"Problems: {path}" in offleash("compare", *pair, "--csv", path, *FEW).out
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(PROBLEMS)
    hostile = next(row for row in rows if "cmd" in row["id"])
    assert hostile["id"] == f"'{PROBLEMS[3].problem}"
    assert hostile["gold"] == "-5"  # a number is no formula
    document = ol.compare(*pair, replicates=100).to_dict()["problems"]
    assert [float(row["p"]) for row in rows] == pytest.approx([row["p"] for row in document])
    offleash("compare", *COUNTS, f"again={COUNTS[1]}", "--csv", path, *FEW)
    assert pl.read_csv(path)["run"].unique().sort().to_list() == ["again", "rl"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "lost.jsonl"), "Add --list"),
        (("--list", "lots"), "did you mean 'lost'?"),
        (("--list", "lost", "--out", "lost.txt"), "should end in .jsonl or .parquet"),
        (("--csv", "table.xlsx"), "should end in .csv"),
        (("--csv", "/dev/null/x.csv"), "cannot be written"),
    ],
)
def test_a_list_that_cannot_be_made_is_refused_before_the_runs_are_read(words: tuple[str, ...], message: str) -> None:
    refused(offleash("compare", "nowhere", "nowhere2", *words), message)


def test_rates_of_runs_that_stopped_are_not_listed(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        problems, sums = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
        ol.draw(problems, sums, k=16, until=1, seed=seed, out=tmp_path / name)
        ol.verify(tmp_path / name, judging=ol.Judging(jobs=1))
    refused(offleash("compare", tmp_path / "a", tmp_path / "b", "--list", "fell", *FEW), "Use --list lost")
    assert offleash("compare", tmp_path / "a", tmp_path / "b", "--list", "lost", *FEW).code == 0


# show, and the viewer at a problem.


def test_show_prints_the_correct_samples_of_a_run_folder(pair: tuple[Path, Path]) -> None:
    shown = offleash("show", pair[0], "sum")
    assert shown.code == 0, shown.err
    assert "12 correct, 4 wrong" in shown.out
    assert [line for line in shown.out.splitlines() if line.startswith("── sample")] == [
        f"── sample {index}: correct, answer '1\ufffd[2J'" for index in range(3)
    ]
    assert "9 more correct samples: --most 12" in shown.out
    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out
    document = offleash("show", pair[0], "sum", "--verdict", "wrong", "--most", "2", "--json").json
    assert [sample["index"] for sample in document["samples"]] == [12, 13]
    assert document["samples"][0]["text"].endswith("of sum 12")
    assert document["verdicts"] == {"correct": 12, "wrong": 4}


def test_show_takes_an_id_as_the_list_printed_it(tmp_path: Path) -> None:
    base, _ = make_pair(tmp_path)  # ids with control characters and marks of direction
    odd = next(name for name in ol.load(base).problems["problem"] if "\x00" in name)
    listed = odd.replace("\x00", "\ufffd").replace("\x1b", "\ufffd").replace("\x07", "\ufffd").strip()
    assert ol.show(base, listed, verdict="all").to_dict()["problem"] == odd


def test_show_works_on_logs_with_and_without_verdicts(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [[True, False], [False, False]])
    assert [sample.text for sample in ol.show(log, "p0").samples] == ["text 0 0"]
    assert "No sample is correct." in offleash("show", log, "p1").out
    bare = tmp_path / "bare.jsonl"
    bare.write_text('{"id": "p0", "question": "?", "response": "a text"}\n')
    assert [(sample.verdict, sample.text) for sample in ol.show(bare, "p0", verdict="all").samples] == [
        ("unverified", "a text")
    ]
    assert "Judge them" in offleash("show", bare, "p0").out


def test_show_refuses_what_it_cannot_find(pair: tuple[Path, Path]) -> None:
    refused(offleash("show", pair[0], "planets"), "has no problem 'planets'. Did you mean 'planet'?")
    refused(offleash("show", COUNTS[0], "p000"), "holds counts", "Give a run folder")
    refused(offleash("show", pair[0], "sum", "--verdict", "corect"), "correct")
    refused(offleash("show", pair[0]), "show needs PROBLEM")


def test_the_viewer_opens_at_a_problem(pair: tuple[Path, Path]) -> None:
    session = ol.view(*pair, problem="sum", replicates=100)
    session.close()
    ids = sorted(problem.problem for problem in PROBLEMS)
    assert session.url.endswith(f"/#problem={ids.index('sum')}")
    with pytest.raises(ol.OffleashError, match="Did you mean 'planet'"):
        ol.view(*pair, problem="planets", replicates=100)
