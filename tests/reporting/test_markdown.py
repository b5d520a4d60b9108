"""Summaries for elsewhere: what they say is what the comparison found, and no name from a log can break them."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from offleash import __version__
from offleash.comparing.checkpoints import CheckpointUnion
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.headline import headline
from offleash.comparing.question import Question
from offleash.data.tally import Per
from offleash.loading.load import load
from offleash.render.escape import code, prose, tex
from offleash.reporting.latex import COLUMNS, latex, row
from offleash.reporting.markdown import markdown
from offleash.stats.change import METRICS, change_of_table
from offleash.stats.support_classes import Rule
from tests.stats.test_published_tables import EXCEPTIONS, TABLE_1, TABLES_6_12, counts, read

NASTY = [
    "a|b",
    "a\\|b | c",
    "`code` ``more`` ```most```",
    "</td><script>alert(1)</script>",
    "[click](http://evil.example) ![x](http://evil.example/x.png)",
    "www.evil.example",
    "me@evil.example @someone #12 GH-3",
    "two\nlines\r\n\n# heading\n\n| a | b |\n|---|---|",
    "right \u202eto left\u2066 \x00\x1b[31m",
    "$\\frac{1}{2}$ ~~gone~~ **bold** <!-- comment",
    "x" * 5000,
    " ",
]
N = 64


def counted(path: Path, name: str, correct: list[int], problems: list[str], benchmarks: list[str]) -> Path:
    """A file of counts, in a folder of its own."""
    file = path / f"{name}.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        write = csv.writer(out)
        write.writerow(["problem", "benchmark", "n", "c"])
        write.writerows(zip(problems, benchmarks, [N] * len(problems), correct, strict=True))
    return file


def comparison(
    path: Path,
    problems: list[str] | None = None,
    benchmarks: list[str] | None = None,
    names: tuple[str, str] = ("base", "rl"),
    question: Question | None = None,
) -> Comparison:
    """Twelve problems: five lost from 40 successes, one gained, three kept, three never reached."""
    problems = problems or [f"p{i:02}" for i in range(12)]
    benchmarks = benchmarks or ["sums"] * 12
    before, after = [40] * 5 + [0] + [9] * 3 + [0] * 3, [0] * 5 + [40] + [60] * 3 + [0] * 3
    files = [counted(path, name, c, problems, benchmarks) for name, c in (("0", before), ("1", after))]
    runs = [replace(load(file)[0], name=name) for file, name in zip(files, names, strict=True)]
    return compare(runs[0], runs[1], question or Question(replicates=200))


def rendered(text: str) -> list[Token]:
    """All tokens of a text as a renderer sees it that lets HTML through."""
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [token for block in parsed for token in (block, *(block.children or []))]


def kinds(tokens: list[Token]) -> set[str]:
    return {token.type for token in tokens}


def table_rows(text: str) -> list[list[str]]:
    """Rows of every table but those between head and body, as text of cells."""
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| :--")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows]


def cell(text: str, row: str, column: int) -> str:
    return next(found[column] for found in table_rows(text) if found[0].startswith(row))


def test_the_markdown_says_what_the_comparison_found(tmp_path: Path) -> None:
    one = comparison(tmp_path)
    text = markdown([one], command="offleash report base rl --format md")
    assert [cell(text, "observed", i) for i in (1, 2, 3, 4)] == ["3", "1", "5", "3"]
    null = one.evidence.null
    assert null is not None
    assert [cell(text, "unchanged model", i) for i in (2, 3)] == [f"{null.expected_E:.1f}", f"{null.expected_S:.1f}"]
    for name, spelt in zip(
        METRICS, ("support retention", "net discovery", "support dynamic", "net support"), strict=True
    ):
        ends = one.change.interval[name]
        assert cell(text, spelt, 1) == f"{one.change.value[name]:.3f}"
        assert cell(text, spelt, 2) == f"{ends.low:.3f} to {ends.high:.3f}"
    assert cell(text, "pass@1", 1) == f"{one.curves['before'].value_K[0]:.4f}"
    assert cell(text, f"pass@{N}", 2) == f"{4 / 12:.4f}"
    assert "- `p00`: 40 of 64 samples correct before, 0 of 64 after" in text
    assert "- `p05`: 0 of 64 samples correct before, 40 of 64 after" in text
    assert "12 problems, k = 64" in text
    assert "Reached (rule seen): at least one of k samples is correct" in text
    assert __version__ in text
    assert "offleash report base rl --format md" in text
    assert "Benchmarks" not in text
    assert "Each compared with" not in text


def test_no_name_from_a_log_breaks_the_markdown_or_adds_a_link_or_html(tmp_path: Path) -> None:
    plain = comparison(tmp_path, benchmarks=["one", "two"] * 6)
    nasty = comparison(tmp_path, NASTY, [NASTY[i % 2 + 3] for i in range(12)], (NASTY[2], NASTY[3] + NASTY[6]))
    tame, wild = (rendered(markdown([one], command="offleash `report` \n```\n<b>")) for one in (plain, nasty))
    assert kinds(wild) == kinds(tame)
    assert not kinds(wild) & {"html_inline", "html_block", "link_open", "image", "s_open"}
    for kind in ("tr_open", "td_open", "th_open", "heading_open", "list_item_open", "fence"):
        assert sum(token.type == kind for token in wild) == sum(token.type == kind for token in tame)
    outside = " ".join(token.content for token in wild if token.type == "text")
    assert not re.search(r"(?<!pass)@|#|evil|script|GH-3", outside)


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_one_span_of_code_in_text_and_in_a_table(name: str) -> None:
    for text in (f"x {code(name)} y", prose("so \ue000, and", {"\ue000": name})):
        assert kinds(rendered(text)) <= {"paragraph_open", "inline", "text", "code_inline", "paragraph_close"}
    table = rendered(f"| a | b |\n|---|---|\n| {code(name, in_table=True)} | end |")
    cells = [token.content for token in table if token.type == "inline"]
    assert len(cells) == 4
    assert cells[-1] == "end"


@pytest.mark.parametrize("letters", ["`", "``", "a`", "`a", " a ", "a``b`c", "\\", "a\\`"])
def test_code_shows_backticks_spaces_and_backslashes_as_they_are(letters: str) -> None:
    spans = [token.content for token in rendered(code(letters)) if token.type == "code_inline"]
    assert spans == [letters]


def test_words_of_ours_stay_words_and_anything_else_becomes_code() -> None:
    assert prose("worth 4.5 [< 1, 5.2] of it (p = 1.0e-05).", {}) == r"worth 4.5 \[&lt; 1, 5.2\] of it (p = 1.0e-05)."
    assert prose("read http://a.example, or @me", {}) == "read `http://a.example`, or `@me`"


def test_benchmarks_and_checkpoints_have_their_tables(tmp_path: Path) -> None:
    one = comparison(tmp_path, benchmarks=["easy", "hard"] * 6)
    together = CheckpointUnion(N, 2, 12, (3.0, 1.0, 5.0, 3.0), None)
    text = markdown([one, one], together)
    assert cell(text, "`easy`", 1) == "6"
    assert cell(text, "mean of benchmarks", 6) == f"{one.macro.value['SRR']:.3f}" if one.macro else "?"
    assert cell(text, "mean of benchmarks", 7) == f"{one.macro.redraw['SRR']:.3f}" if one.macro else "?"
    assert cell(text, "`rl`", 4) == f"{one.change.redraw.value['SRR']:.3f}" if one.change.redraw else "?"
    classes = text.partition("| run | P |")[2]
    assert cell(classes, "`rl`", 5) == str(one.evidence.losses_at_least)
    assert cell(classes, "union of 2", 3) == "5"


def test_checkpoints_per_solution_have_no_pass_and_no_union_of_problems(tmp_path: Path) -> None:
    one, together = comparison(tmp_path), CheckpointUnion(N, 2, 12, (3.0, 1.0, 5.0, 3.0), (2.0, 1.0, 6.0, 3.0))
    told = replace(one, tally=replace(one.tally, per=Per.SOLUTION), change=replace(one.change, per=Per.SOLUTION))
    problems, solutions = (markdown([step, step], together).split("### Each compared with")[1] for step in (one, told))
    assert cell(problems, "union of 2, 64 samples in total", 1) == "2"
    assert cell(solutions.partition("| run | P |")[2], "`rl`", 1) == "3"
    assert "union of 2" not in solutions
    assert "pass@" not in solutions


def test_the_union_says_its_rule_where_the_rows_above_it_have_another(tmp_path: Path) -> None:
    one = comparison(tmp_path, question=Question(rule=Rule.ABOVE, tau=0.3, replicates=200))
    text = markdown([one, one], CheckpointUnion(N, 2, 12, (3.0, 1.0, 5.0, 3.0), None))
    assert cell(text, "union of 2, 64 samples each (rule seen)", 3) == "5"


def test_the_passes_at_a_k_between_the_budgets_of_the_curves_are_given(tmp_path: Path) -> None:
    one = comparison(tmp_path, question=Question(at=48, replicates=200))
    text = markdown([one])
    assert 48 not in one.curves["before"].k_K
    assert cell(text, "pass@48", 3) == f"{(one.change.E - one.change.S) / 12:+.4f}"
    assert " to " in cell(text, "pass@48", 4)


def test_other_rules_say_what_is_not_known(tmp_path: Path) -> None:
    one = comparison(tmp_path, question=Question(rule=Rule.CONFIDENT, replicates=200))
    text = markdown([one])
    assert "Reached (rule confident)" in text
    assert np.isfinite(one.change.P)


def printed(line: str) -> list[str]:
    return [part.strip().strip("$") for part in line.removesuffix(r"\\").split("&")]


@pytest.mark.parametrize("published", read(TABLE_1), ids=lambda row: f"{row['model']} {row['domain']}")
def test_a_row_of_table_1_is_printed_as_it_was_published(published: dict[str, str]) -> None:
    line = row(published["model"], published["domain"], change_of_table(*counts(published)))
    ours = dict(zip(COLUMNS, printed(line), strict=True))
    wrong = EXCEPTIONS.get(("Table1", f"{published['model']} {published['domain']}"), set())
    assert {name for name in COLUMNS if ours[name] != published[name]} == wrong


def test_the_rows_of_the_benchmarks_have_the_published_counts_and_rounded_metrics() -> None:
    for published in read(TABLES_6_12):
        ours = printed(row(published["rl_model"], published["dataset"], change_of_table(*counts(published))))
        assert ours[6:] == [published[name] for name in "PESO"]
        assert all(re.fullmatch(r"-?[01]\.\d\d", value) for value in ours[2:6])


def test_latex_has_a_row_a_benchmark_one_overall_and_says_how_it_was_counted(tmp_path: Path) -> None:
    one = comparison(tmp_path, benchmarks=["easy", "hard"] * 6)
    lines = latex([one, one]).splitlines()
    rows = [line for line in lines if not line.startswith("%")]
    assert [printed(line)[1] for line in rows if "&" in line] == ["easy", "hard", "Overall"] * 2
    assert rows[3] == r"\midrule"
    assert lines[0] == r"% model & domain & SRR & NDR & SDS & NSCR & P & E & S & O \\"
    assert any("k = 64, rule seen" in line and "12 problems" in line for line in lines)
    assert f"% offleash {__version__}" in lines
    ends = one.change.interval["SRR"]
    assert f"{{\\scriptsize [{ends.low:.2f}, {ends.high:.2f}]}}" in latex([one], intervals=True)


def test_latex_prints_a_dash_for_what_is_undefined() -> None:
    assert printed(row("m", "d", change_of_table(0, 0, 0, 5)))[2:6] == ["--"] * 4
    change = replace(change_of_table(1, 0, 0, 0), O=float("nan"))
    assert printed(row("m", "d", change, intervals=True))[-1] == "--"


@pytest.mark.parametrize("name", NASTY)
def test_a_name_cannot_give_latex_an_order(name: str) -> None:
    line = row(name, "d", change_of_table(3, 1, 1, 1))
    assert "\n" not in line
    assert len(re.findall(r"(?<!\\)&", line)) == len(COLUMNS) - 1
    known = r"\\text\w+\{\}|\\[{}$&#_%]|\{[\[\]*]\}"
    bare = re.sub(known, "", tex(name))
    assert not re.search(r"[\\{}$&#_%^~<>|\[\]*\x00-\x1f\u202e]", bare)


def test_latex_keeps_other_alphabets() -> None:
    assert tex("Größe 数学 50%_a^b~c\\d") == (
        r"Größe 数学 50\%\_a\textasciicircum{}b\textasciitilde{}c\textbackslash{}d"
    )


def test_the_headline_names_the_runs(tmp_path: Path) -> None:
    """The sentences are escaped with placeholders for the names, none of which may stay in the text."""
    one = comparison(tmp_path)
    text = markdown([one])
    assert "\N{REPLACEMENT CHARACTER}" not in text
    assert headline(one).text.split(";")[0].replace("rl", "`rl`").replace("base", "`base`") in text


def test_brackets_of_the_sentence_are_not_part_of_a_name() -> None:
    assert prose("(by their names: step1, step2); see f(x).", {}) == "(by their names: `step1`, `step2`); see `f(x)`."
