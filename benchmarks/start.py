"""python benchmarks/start.py: CPU seconds until the command and the package answer, beside Python and typer alone.

The median of nine fresh processes each, which is what a user waits for at least. The limits are those that the project
set itself: the overview under 0.15 s, the help of a verb under 0.25 s, `import offleash` under 0.05 s, comparing two
files of counts under 1 s.
"""

import resource
import statistics
import subprocess
import sys

RUNS = 9
RUN = "import sys; sys.argv = ['offleash', *{words!r}]; from offleash.cli.main import main; main()"
TYPER = """
import sys, typer
app = typer.Typer(add_completion=False, rich_markup_mode=None)
@app.command()
def first(name: str, k: int = 1) -> None: "A verb."
@app.command()
def second(name: str, k: int = 1) -> None: "Another verb."
sys.argv = ["app", *{words!r}]
app()
"""


def seconds(code: str) -> float:
    """CPU time of a fresh process that runs the code."""
    spent = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(spent)


def main() -> None:
    nothing = seconds("pass")
    print(f"{'Python alone':34} {nothing:.3f} s")
    helps: list[tuple[str, ...]] = [("--help",), ("first", "--help")]
    bare = {words: seconds(TYPER.format(words=list(words))) for words in helps}
    for words, spent in bare.items():
        print(f"{'typer, two verbs: ' + ' '.join(words):34} {spent:.3f} s")
    import_time = seconds("import offleash")
    print(f"{'import offleash':34} {import_time:.3f} s (limit 0.05)")
    limits: list[tuple[tuple[str, ...], float]] = [
        (("--help",), 0.15),
        (("compare", "--help"), 0.25),
        (("draw", "--help"), 0.25),
        (("demo", "--help"), 0.25),
        (("figure", "--help"), 0.25),
        (("compare", "examples/counts/base.csv", "examples/counts/rl.csv"), 1.0),
    ]
    for words, limit in limits:
        spent = seconds(RUN.format(words=list(words)))
        peer = bare[("--help",) if words == ("--help",) else ("first", "--help")]
        print(f"{'offleash ' + ' '.join(words):34} {spent:.3f} s (limit {limit})")
        print(f"ratio offleash {' '.join(words)} to a typer app of two verbs: {spent / peer:.2f}")


if __name__ == "__main__":
    main()
