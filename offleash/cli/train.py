"""The verbs that train: train, demo, and lab with its small worlds."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.output import AsJson, command_line, console, needs_local, print_json, progress, say
from offleash.errors import OffleashError


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A YAML file: model, problems, method, steps, ...")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Values set by dotted name.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("-o", "--into", metavar="DIR", help="Where the training goes; with its name: runs/RECIPE."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model of transformers with a method of RLVR, on policy, by a recipe.

    DIR gets the recipe as it was resolved, metrics.jsonl, TensorBoard logs, checkpoints, and the model in Hugging Face
    format under DIR/model. Run it again after an interruption, or with more steps: it goes on from the last checkpoint.

    \b
    Examples:
      offleash lab model countdown -o base
      offleash train examples/recipes/grpo.yaml -o runs/grpo
      offleash train examples/recipes/grpo.yaml method=dapo method.overlong=0 optimizer.rate=1e-4 -o runs/dapo
      offleash train examples/recipes/grpo.yaml method=mixed_policy traces=traces.jsonl steps=40 -o runs/mixed
    """
    needs_local("train")
    from offleash.training.loop import train as run
    from offleash.training.loop import trained_document, trained_text
    from offleash.training.recipe import read_recipe

    resolved = read_recipe(recipe, overrides or [])
    folder = into or Path("runs") / recipe.stem
    with progress(as_json) as tell:
        done = run(resolved, folder, tell)
    if as_json:
        print_json(trained_document(done))
    else:
        say(trained_text(done))


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where everything goes.")] = Path("runs/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Under a minute: fewer steps, problems and samples.")] = False,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Of the training, the problems and the samples.")] = 0,
    world: Annotated[str, typer.Option(metavar="NAME", help="Which world of the lab.")] = "countdown",
    as_json: AsJson = False,
) -> None:
    """Train a small model with GRPO, and measure what it can reach before and after.

    A base of 158k parameters that comes with the package is trained on arithmetic puzzles (Countdown). Both models are
    drawn on problems that neither saw, at temperature 1 and at the paper's 0.6 with top-p 0.95; the base is drawn a
    second time, to see what chance alone does. Everything is measured in this run: if the effect is not there, it says
    so. Ctrl-C loses nothing: run it again.

    \b
    Examples:
      offleash demo
      offleash demo --quick -o runs/quick
      offleash demo --seed 3 -o runs/seed3 --json
    """
    from dataclasses import replace

    needs_local("demo")
    from offleash.lab.demo import QUICK, DemoSize, demonstrate
    from offleash.lab.demo_report import demo_document, headline, sentences, write_report
    from offleash.lab.registry import world as world_of

    with progress(as_json) as tell:
        plan = replace(QUICK if quick else DemoSize(), seed=seed)
        done = demonstrate(world_of(world), plan, out, tell)
        path = write_report(done, command_line(), tell)
    if as_json:
        print_json(demo_document(done, path))
        return
    from offleash.reporting.comparison import show

    show(console(), [done.plain])
    print()
    for sentence in (headline(done), *sentences(done)):
        say(sentence)
    say(f"\n{done.seconds:.0f} s. Models, samples, verdicts: {out}. Report: {path}")


lab = typer.Typer(
    name="lab",
    help="Small worlds to try things in: their problems, expert traces and models.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
WorldName = Annotated[
    str, typer.Argument(metavar="WORLD", help="countdown, or another world (see: offleash lab list).")
]
Seed = Annotated[int, typer.Option(metavar="S", min=0, help="Another seed, another set.")]


@lab.command("list")
def list_(as_json: AsJson = False) -> None:
    """The worlds there are.

    \b
    Examples:
      offleash lab list
    """
    from offleash.lab.registry import WORLDS

    if as_json:
        print_json([{"name": one.name, "about": one.about} for one in WORLDS.values()])
        return
    for one in WORLDS.values():
        print(f"{one.name:12} {one.about}")


@lab.command()
def model(
    world: WorldName = "countdown",
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Where the copy goes.")] = Path("base"),
    as_json: AsJson = False,
) -> None:
    """Copy a world's base model, in Hugging Face format, to train, serve or draw from.

    \b
    Examples:
      offleash lab model countdown -o base
      offleash draw countdown:test hf:base -k 64 --max-tokens 18 -o runs/base
    """
    from offleash.lab.pretrain import copy_base
    from offleash.lab.registry import world as world_of

    folder = copy_base(world_of(world).name, into)
    _said(
        {"world": world, "model": str(folder)}, f"{folder} holds the base of {world}; use it as hf:{folder}.", as_json
    )


@lab.command()
def problems(
    world: WorldName,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="A JSONL that every verb reads.")],
    part: Annotated[str, typer.Option(metavar="PART", help="train, dev or test; they share nothing.")] = "test",
    size: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 200,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write problems of a world: to train on (train), to choose by (dev), to test with (test).

    \b
    Examples:
      offleash lab problems countdown --part train --size 4096 -o train.jsonl
    """
    from offleash.lab.registry import world as world_of
    from offleash.lab.registry import write_problems

    with progress(as_json) as tell:
        tell(f"generating {world}")
        count = write_problems(world_of(world), part, size, seed, out)
    _said({"file": str(out), "problems": count}, f"{out} holds {count:,} problems of {world}, part {part}.", as_json)


@lab.command()
def traces(
    world: WorldName,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="A JSONL of {problem, text}.")],
    asked: Annotated[Path, typer.Option("--problems", metavar="FILE", help="The problems that are to be solved.")],
    each: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many traces a problem.")] = 4,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write correct traces by the world's own solver, for methods that learn from outside.

    \b
    Examples:
      offleash lab traces countdown --problems train.jsonl -o traces.jsonl
    """
    from offleash.lab.registry import world as world_of
    from offleash.lab.registry import write_expert_traces

    with progress(as_json) as tell:
        count = write_expert_traces(world_of(world), asked, each, seed, out, tell)
    _said({"file": str(out), "traces": count}, f"{out} holds {count:,} traces.", as_json)


@lab.command()
def pretrain(
    world: WorldName,
    into: Annotated[Path, typer.Option("-o", "--into", metavar="DIR", help="Where the model goes.")],
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="As the shipped base if not given.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a base for a world from its corpus: minutes on one core. The defaults made the one that is shipped.

    \b
    Examples:
      offleash lab pretrain countdown -o base
      offleash lab pretrain countdown --steps 300 --seed 1 -o weaker
    """
    from dataclasses import replace

    needs_local("lab pretrain")
    from offleash.lab.pretrain import pretrained, refuse_taken, save
    from offleash.lab.registry import world as world_of

    chosen = world_of(world)
    options = replace(chosen.pretraining, seed=seed, steps=steps or chosen.pretraining.steps)
    refuse_taken(into)
    try:
        with progress(as_json) as tell:
            save(pretrained(chosen, options, tell), chosen, into)
    except KeyboardInterrupt:
        raise OffleashError("The pretraining was interrupted; it keeps no checkpoints, and begins anew.") from None
    _said(
        {"model": str(into), "steps": options.steps}, f"{into} holds a base of {world}; use it as hf:{into}.", as_json
    )


def _said(document: dict[str, object], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        say(text)
