"""The verb `draw` as the command line and notebooks call it: arguments in, results out."""

from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from offleash.data.folder import is_run, refuse_other_folder
from offleash.drawing.draw import Announce, Drawing, DrawnRun, draw, refuse_copies, unannounced
from offleash.drawing.resume import askable, refuse_other_words
from offleash.errors import OffleashError
from offleash.problems.benchmarks import GYM, PROBLEMS
from offleash.progress import Progress, silent
from offleash.samplers.huggingface.loading import check_folder, settings_of
from offleash.samplers.models import EXTRAS, Model, open_sampler
from offleash.samplers.sampler import Decoding
from offleash.verifying.verify import Verifying

LARGEST = 16_384  # the paper's largest budget
MATHS, OTHERS = 8_192, 2_048  # of its models of 1.5B and 7B; half of it for 14B
ABOUT_MATHS = {"aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench", "mathvista", "mathvision"}
TASKS: Mapping[str, int] = {  # of Reasoning Gym, where a figure shows it (its largest k)
    "graph_color": 2_048,
    "palindrome_generation": 1_024,
    "prime_factorization": 8_192,
    "advanced_geometry": 4_096,
    "dice": 8_192,
    "leg_counting": 1_024,
    "family_relationships": 1_024,
    "power_function": 1_024,
}


def draw_arguments(
    folder: Path,
    problems: pl.DataFrame,
    model: Model,
    decoding: Decoding,
    k: str,
    until: int = 0,
    seed: int = 0,
    verifying: Verifying | None = None,
    progress: Progress = silent,
    announce: Announce = unannounced,
) -> DrawnRun:
    """Draw from a model by its name; what is refused is refused before the model is loaded, where that can be told."""
    drawing = check_draw(folder, problems, model, decoding, k, until, seed)
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:
        return draw(folder, problems, sampler, decoding, drawing, verifying, progress, announce)


def check_draw(
    folder: Path, problems: pl.DataFrame, model: Model, decoding: Decoding, k: str, until: int, seed: int
) -> Drawing:
    """What is to be drawn; refused where that can be told from the words and the folder alone."""
    askable(problems)
    drawing = Drawing(str(model), budget(k, problems), until, seed)
    refuse_copies(decoding, drawing.k)
    refuse_other_folder(folder)
    if is_run(folder):
        refuse_other_words(folder, drawing.model, decoding, seed, until)
    return drawing


def check_model(model: Model) -> None:
    """Refuse a model that cannot be opened, as far as that can be told without loading it."""
    if model.sampler not in ("hf", "vllm"):
        open_sampler(model).close()  # cheap: no weights are loaded
        return
    if model.sampler == "hf":
        settings_of(model)
        lacking = [name for name in ("torch", "transformers") if find_spec(name) is None]
        if lacking:
            raise OffleashError(f"hf: needs more than is installed ({lacking[0]}); {EXTRAS['hf']}.")
    if model.sampler == "hf" or not _holds(model.name, "config.json", "params.json"):
        check_folder(model.name)
    adapter = Path(model.adapter).expanduser()
    local = model.adapter.startswith((".", "/", "~")) or model.adapter.count("/") > 1 or adapter.exists()
    if model.adapter and local and not _holds(model.adapter, "adapter_config.json"):
        what = "holds no adapter_config.json" if adapter.is_dir() else "is no folder"
        raise OffleashError(f"{model.adapter} {what}; an adapter is a folder that PEFT saved, or a name on the hub.")


def budget(k: str, problems: pl.DataFrame) -> int:
    """The number of samples a problem: as given, or the paper's for these problems."""
    if k == "paper":
        return paper_budget(problems)
    try:
        return int(k.replace(",", "").replace("_", ""))
    except ValueError:
        raise OffleashError(f"k is a number of samples a problem, or 'paper'; found -k {k}.") from None


def paper_budget(problems: pl.DataFrame) -> int:
    """The budget of arXiv:2507.14843 for a benchmark; its largest for problems that are not in it."""
    budgets = {name or "": _of_benchmark(name or "") for name in problems["benchmark"].unique().sort()}
    if len(set(budgets.values())) > 1:
        told = ", ".join(f"{name or 'without a benchmark'} {k:,}" for name, k in budgets.items())
        raise OffleashError(
            f"The paper's budgets differ between these benchmarks ({told}); draw each into a folder of its own. "
            "`offleash compare 'runs/base-*' 'runs/rl-*'` takes them together."
        )
    return next(iter(budgets.values()), LARGEST)


def _holds(folder: str, *names: str) -> bool:
    return any((Path(folder).expanduser() / name).is_file() for name in names)


def _of_benchmark(name: str) -> int:
    if name in ABOUT_MATHS:
        return MATHS
    if name in PROBLEMS and PROBLEMS[name].paper is not None:
        return OTHERS
    room, _, task = name.partition(":")
    return TASKS.get(task.partition(":")[0], LARGEST) if room == GYM else LARGEST
