"""The registry as rows for people and programs."""

from offleash.problems import countdown
from offleash.problems.benchmarks import GYM, PROBLEMS


def listing() -> list[dict[str, object]]:
    """One row a benchmark, and one for each kind of generated problems."""
    rows: list[dict[str, object]] = [
        {
            "name": one.name,
            "about": one.about,
            "paper": one.paper,
            "verifier": one.verifier,
            "guess": one.guess,
            "prompt": one.prompt,
            "hub": one.hub,
            "config": one.config,
            "split": one.split,
            "source": one.source,
            "checked": one.checked,
            "citation": one.citation,
        }
        for one in PROBLEMS.values()
    ]
    generated = dict.fromkeys(rows[0], None) | {
        "name": f"{GYM}:<task>",
        "about": "105 tasks, generated; easy and hard settings",
        "paper": 50,
        "verifier": GYM,
        "prompt": "the task's own",
        "source": "generated",
        "checked": True,
        "citation": "arXiv:2505.24760",
    }
    puzzles = dict.fromkeys(rows[0], None) | {
        "name": f"{countdown.NAME}:<part>",
        "about": "reach a target from four numbers, generated; parts train, dev and test share no numbers",
        "verifier": "countdown",
        "prompt": "plain",
        "source": "generated",
        "checked": True,
    }
    return [*rows, generated, puzzles]
