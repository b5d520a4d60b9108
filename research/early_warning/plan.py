"""What the study of early warning does, fixed before any of its results was seen (but those of a run with --quick).

* **Trainings.** Countdown, the recipe of the demo (`grpo`: rate 3e-4, 64 problems x 16 samples, no KL), 120 steps, the
  shipped base, seeds 0 to 4. The control, with the same seeds: `held`, the same with a KL penalty of 0.2 to the base,
  which learns on a short leash. The weight of the penalty was chosen by one training on the part `dev` with a seed that
  is not used here. The null: the base itself, drawn again at every look.
* **Looks**: after every 10 steps. A look is a monitor's draw: 64 problems of the part `test`, 64 samples each,
  temperature 1. Four signals, each against the base's (1,024 samples of the same problems): `answer`, entropy of the
  answers as the verifier reads them (in Countdown the whole way, so with few samples it is near its ceiling);
  `value`, entropy of the last number of an answer, which is what the paper calls an answer; both of the readable
  samples, rarefied to 48, which a problem has to have to be counted; `token`, entropy per token; `reward`, pass@1.
  Entropies announce by falling, reward by rising.
* **Truth**: 100 other problems of the part `test`, k = 512. Support is lost from the first look at which at least one
  loss is significant ("losses at least", confidence 1 - 0.05/looks). Beside it the net loss, 1 - net ratio at k = 512
  (the base has a second draw of 512 for it, and that draw alone is held to the same test).
* **Thresholds**, for each seed from the other seeds only. `noise`: the drop that 5% of the null trajectories pass at
  any look. `loss`: the larger of that and the largest drop of the other seeds' trainings in which no loss was ever
  significant.
* **The start, closely**: planned after the first study was read, since its losses were significant at the first or
  second look. The same with 40 steps and a look every 2 (`--steps 40 --every 2`), hence 20 looks; nothing else
  is changed.
* **The rule that is shipped** has the signal with the fewest errors at the threshold `loss` (misses and false alarms
  over all trainings), among equals that with the smallest mean delay, then in the order above; its drop is chosen in
  the same way from all seeds.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    from offleash.lab.world import LabWorld
    from offleash.training.recipe import Recipe

PLAN = "plan.json"
SIGNALS = ("answer", "value", "token", "reward")
RISES = {"reward"}  # signals that rise where support is lost; the others fall
BASE = "base"
RECIPES = ("grpo", "held")
HELD_KL = 0.2  # chosen on the part `dev` (above)
SEED_PARTS = "early warning"  # part of every seed of this study: other studies draw other samples


@dataclass(frozen=True)
class Plan:
    """How large the study is."""

    seeds: int = 5
    steps: int = 120
    every: int = 10  # steps between two looks
    watched: int = 64  # problems of a look
    k: int = 64  # samples of a look
    base_k: int = 1024  # samples of the base that looks are set against
    null_k: int = 2048  # further samples of the base that null trajectories are made of
    nulls: int = 400  # null trajectories per seed
    tested: int = 100  # problems of the truth
    truth_k: int = 512
    groups: int = 64  # problems per step
    pool: int = 4096  # problems that are trained on
    recipes: tuple[str, ...] = field(default=RECIPES)

    @property
    def looks(self) -> int:
        return self.steps // self.every

    @property
    def rarefied(self) -> int:
        """Readable samples that a problem of a look has to have."""
        return self.k * 3 // 4


QUICK = Plan(
    seeds=2, steps=20, every=5, watched=16, base_k=256, null_k=512, nulls=100, tested=20, truth_k=128, groups=16
)


@dataclass(frozen=True)
class Job:
    """One training, or the base of a seed."""

    recipe: str
    seed: int

    def __str__(self) -> str:
        return f"{self.recipe}-{self.seed}"


def jobs_of(plan: Plan) -> list[Job]:
    """All that is drawn and trained, seed by seed."""
    return [Job(recipe, seed) for seed in range(plan.seeds) for recipe in (BASE, *plan.recipes)]


def named_jobs(plan: Plan, names: Sequence[str]) -> list[Job]:
    """Trainings of a plan by their names."""
    by_name = {str(job): job for job in jobs_of(plan)}
    for name in names:
        if name not in by_name:
            raise unknown("training of this study", name, by_name)
    return [by_name[name] for name in names]


def recipe_for(world: "LabWorld", plan: Plan, job: Job, folder: Path) -> "Recipe":
    """The recipe of a training, up to its last look."""
    from offleash.lab.demo import DemoSize as DemoPlan  # seconds, which a refusal need not wait for
    from offleash.lab.demo import recipe_of

    demo = DemoPlan(steps=plan.looks * plan.every, groups=plan.groups, pool=plan.pool, seed=job.seed)
    plain = replace(recipe_of(world, demo, folder), checkpoint_every=plan.every, tensorboard=False)
    return replace(plain, options={"kl": HELD_KL}) if job.recipe == "held" else plain


def write_plan(plan: Plan, folder: Path) -> None:
    """Write the plan into its folder; refused where there is a plan of another size. Seeds and steps may grow."""
    file = folder / PLAN
    if folder.is_file():
        raise OffleashError(f"{folder} is a file, and a study needs a folder. Choose another with -o.")
    if not plan.looks:
        raise OffleashError(
            f"A look every {plan.every} steps makes no look in {plan.steps} steps. Choose a smaller --every."
        )
    if file.is_file() and replace(read_plan(folder), seeds=plan.seeds, steps=plan.steps) != plan:
        raise OffleashError(
            f"{folder} holds a study of another size ({PLAN}). Use the options it was started with, or another -o."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    except OSError as error:
        raise OffleashError(f"{file} cannot be written ({error.strerror}). Choose another folder with -o.") from None


def read_plan(folder: Path) -> Plan:
    """The plan of a folder."""
    file = folder / PLAN
    if not file.is_file():
        raise OffleashError(
            f"{folder} has no study of early warning (no {PLAN}). Run it without --only first, or name another "
            "folder with -o."
        )
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return Plan(**{**stored, "recipes": tuple(stored["recipes"])})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise OffleashError(
            f"{file} is damaged ({error}). Restore it, or start a study in another folder with -o."
        ) from None
