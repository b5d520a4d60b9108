"""The report of a demo: the page of what was found, with the questions that were asked beside the main one."""

from pathlib import Path
from shlex import quote

from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS
from offleash.lab.bases import base_of
from offleash.lab.demo import AGAIN, BASE, PAPER, PROBLEMS, RL, TRAINING, Demonstrated
from offleash.lab.findings import headline, sentences
from offleash.lab.worlds import world
from offleash.progress import Progress, silent
from offleash.render.output import write_text
from offleash.reporting.comparison import document
from offleash.reporting.page.build import Telling, report_page
from offleash.reporting.page.chapters import Chapter
from offleash.reporting.subject import subject

NAME = "report.html"


def write_report(done: Demonstrated, command: str = "", progress: Progress = silent) -> Path:
    """Write the page into the folder of the demo; `command` is what the page says made it."""
    path = done.folder / NAME
    write_text(path, report_page(subject([done.plain]), telling(done, command), progress))
    return path


def demo_document(done: Demonstrated, path: Path) -> dict[str, object]:
    """The JSON of `compare` (per problem, temperature 1), with the rest of what was measured beside it."""
    return {
        **document([done.plain]),
        "seconds": round(done.seconds, 1),
        "report": str(path),
        "folder": str(done.folder),
        "finding": headline(done),
        "per_solution": document([done.solutions]),
        "paper_decoding": document([done.paper]),
        "base_again": document([done.null]),
    }


def telling(done: Demonstrated, command: str = "") -> Telling:
    """What the page says beside the main comparison: how it was made, and the same question asked otherwise."""
    plan = done.plan
    made = (
        f"{done.world}: a base and the same model after {plan.steps} steps of GRPO; {plan.problems} problems that "
        f"neither the corpus nor the training held, seed {plan.seed}; {done.seconds:.0f} s in the last call."
    )
    return Telling(
        command="\n".join([*([command] if command else []), *again(done)]),
        headline=headline(done),
        sentences=[*sentences(done), made],
        chapters=[
            Chapter("Per solution instead of per problem, temperature 1", done.solutions),
            Chapter("At the paper's decoding: temperature 0.6, top-p 0.95", done.paper),
            Chapter("The base drawn again: what chance alone does", done.null),
        ],
    )


def again(done: Demonstrated) -> list[str]:
    """Commands that show it again."""
    folder = Path(quote(str(done.folder)))
    return [
        f"offleash view {folder / BASE} {folder / RL}",
        f"offleash compare {folder / BASE} {folder / RL} --per solution",
        f"offleash compare {folder / PAPER / BASE} {folder / PAPER / RL}",
        f"offleash compare {folder / BASE} {folder / AGAIN}",
        f"offleash entropy {folder / BASE} {folder / RL} --at 32",
        f"offleash ways {folder / BASE} {folder / RL} --by {done.world if done.world in FINGERPRINTS else 'steps'}",
        f"offleash likelihood {folder / BASE} {folder / RL}",
        f"offleash sweep {folder / PROBLEMS / 'test.jsonl'} base=hf:{quote(str(base_of(done.world)))} "
        f"rl=hf:{quote(str(done.trained.model))} --match -k 1024 --max-tokens {world(done.world).longest} "
        f"-o {folder / 'match'}",
        f"offleash train {folder / TRAINING / 'recipe.yaml'} -o ANOTHER seed=1",
    ]
