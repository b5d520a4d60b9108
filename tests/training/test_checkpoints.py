"""Checkpoints: any tool opens them as a model, and a kill leaves a whole one or none."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from offleash.errors import OffleashError
from offleash.samplers.huggingface.attention import ATTENTION, register
from offleash.training.checkpoints import CHECKPOINTS_FOLDER, STATE, Checkpoint, load_state, newest, save
from tests.samplers.huggingface.tiny import END, tiny_model

MARK = "model.norm.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("base"))


class Trained:
    """A tiny model in training: every step leaves its number in the weights and in the state."""

    def __init__(self, base: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(base)
        self.tokenizer = AutoTokenizer.from_pretrained(base)

    def save(self, folder: Path, step: int, keep: int | None = 2, steps: tuple[int, ...] = ()) -> Checkpoint:
        with torch.no_grad():
            self.model.get_parameter(MARK).fill_(step)
        state = {"step": step, "moments": torch.ones(500) * step}
        return save(folder, step, self.model, self.tokenizer, state, keep=keep, keep_steps=steps)


@pytest.fixture
def trained(base: Path) -> Trained:
    return Trained(base)


def step_in_weights(checkpoint: Checkpoint) -> float:
    weights: torch.Tensor = AutoModelForCausalLM.from_pretrained(checkpoint.folder).get_parameter(MARK)
    return weights[0].item()


def standing(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / CHECKPOINTS_FOLDER).iterdir())


def test_what_is_saved_is_what_is_loaded(tmp_path: Path, trained: Trained) -> None:
    optimizer = torch.optim.AdamW(trained.model.parameters(), lr=0.01)
    trained.model(input_ids=torch.tensor([[0, 1, 2]]), labels=torch.tensor([[0, 1, 2]])).loss.backward()
    optimizer.step()
    generator = np.random.default_rng(7)
    state = {
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "numpy": generator.bit_generator.state,
        "seen": {"a": {"4*3": 2}},
        "best": 0.5,
        "validated": [0.1, None, True],
    }
    saved = save(tmp_path, 120, trained.model, trained.tokenizer, state)
    assert saved == newest(tmp_path) == Checkpoint(120, tmp_path / "checkpoints" / "step-000120")
    result = load_state(saved)
    assert {name: result[name] for name in ("numpy", "seen", "best", "validated")} == {
        name: state[name] for name in ("numpy", "seen", "best", "validated")
    }
    assert isinstance(result["torch"], torch.Tensor)
    assert torch.equal(result["torch"], torch.get_rng_state())
    again = AutoModelForCausalLM.from_pretrained(saved.folder)
    for name, weights in trained.model.state_dict().items():
        assert torch.equal(weights, again.state_dict()[name]), name
    other = torch.optim.AdamW(again.parameters(), lr=0.5)
    assert isinstance(result["optimizer"], dict)
    other.load_state_dict(result["optimizer"])
    for mine, theirs in zip(
        optimizer.state_dict()["state"].values(), other.state_dict()["state"].values(), strict=True
    ):
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert AutoTokenizer.from_pretrained(saved.folder)("a b d").input_ids == [0, 1, 3]
    assert list(saved.folder.glob("*.safetensors"))


def test_a_model_with_the_attention_of_our_sampler_is_saved_as_any_other(tmp_path: Path, trained: Trained) -> None:
    register()
    tokens = torch.tensor([[0, 1, 2, 3]])
    before = trained.model(input_ids=tokens).logits
    trained.model.set_attn_implementation(ATTENTION)
    saved = save(tmp_path, 1, trained.model, trained.tokenizer, {})
    again = AutoModelForCausalLM.from_pretrained(saved.folder)
    assert again.config._attn_implementation != ATTENTION
    assert torch.allclose(again(input_ids=tokens).logits, before, atol=1e-5)
    assert ATTENTION not in (saved.folder / "config.json").read_text()
    assert trained.model.config._attn_implementation == ATTENTION  # the one in training goes on as it was


def test_a_checkpoint_ends_its_samples_where_the_model_did(tmp_path: Path, trained: Trained) -> None:
    trained.model.generation_config = GenerationConfig()  # as the sampler leaves it
    plain = save(tmp_path, 1, trained.model, trained.tokenizer, {})
    assert AutoModelForCausalLM.from_pretrained(plain.folder).generation_config.eos_token_id == END
    several = save(tmp_path, 2, trained.model, trained.tokenizer, {}, ends=(END, 3))
    assert json.loads((several.folder / "generation_config.json").read_text())["eos_token_id"] == [END, 3]
    assert trained.model.generation_config.eos_token_id is None


def test_the_last_two_stay_and_the_newest_is_found(tmp_path: Path, trained: Trained) -> None:
    assert newest(tmp_path) is None
    for step in (20, 40, 60, 1_000_000):
        trained.save(tmp_path, step)
    assert standing(tmp_path) == ["step-000060", "step-1000000"]
    result = newest(tmp_path)
    assert result is not None
    assert result.step == 1_000_000
    assert step_in_weights(result) == 1_000_000


def test_keep_says_how_many_stay_and_the_new_one_always_does(tmp_path: Path, trained: Trained) -> None:
    for step in (1, 2, 3, 4):
        trained.save(tmp_path, step, keep=3)
    assert standing(tmp_path) == ["step-000002", "step-000003", "step-000004"]
    trained.save(tmp_path, 5, keep=1)
    assert standing(tmp_path) == ["step-000005"]


def test_steps_that_are_named_stay_and_all_stay_where_none_may_go(tmp_path: Path, trained: Trained) -> None:
    for step in (1, 2, 3, 4):
        trained.save(tmp_path / "some", step, keep=1, steps=(2,))
        trained.save(tmp_path / "all", step, keep=None)
    assert standing(tmp_path / "some") == ["step-000002", "step-000004"]
    assert len(standing(tmp_path / "all")) == 4


def test_a_step_saved_again_replaces_what_was_there(tmp_path: Path, trained: Trained) -> None:
    trained.save(tmp_path, 20)
    saved = save(tmp_path, 20, trained.model, trained.tokenizer, {"again": True})
    assert load_state(saved) == {"again": True}
    assert standing(tmp_path) == ["step-000020"]


def test_what_a_kill_leaves_is_never_the_newest_and_is_swept_by_the_next_save(tmp_path: Path, trained: Trained) -> None:
    saved = trained.save(tmp_path, 20)
    place = tmp_path / CHECKPOINTS_FOLDER
    shutil.copytree(saved.folder, place / ".writing-step-000040")
    shutil.copytree(saved.folder, place / ".gone-step-000010")
    shutil.copytree(saved.folder, place / "step-000020.old")
    (place / "step-000060").mkdir()
    (place / "step-000060" / "config.json").write_text("{}")
    (place / "step-last").mkdir()
    assert newest(tmp_path) == saved
    trained.save(tmp_path, 80)
    assert standing(tmp_path) == ["step-000020", "step-000060", "step-000080", "step-last"]


def test_a_kill_between_two_of_the_same_step_leaves_the_first(tmp_path: Path, trained: Trained) -> None:
    saved = trained.save(tmp_path, 20)
    saved.folder.rename(saved.folder.with_name("step-000020.old"))
    result = newest(tmp_path)
    assert result is not None
    assert (result.step, load_state(result)["step"], step_in_weights(result)) == (20, 20, 20)
    trained.save(tmp_path, 20)
    assert standing(tmp_path) == ["step-000020"]


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "list", "missing", "pickle"])
def test_a_damaged_state_is_named_with_the_next_step(tmp_path: Path, trained: Trained, damage: str) -> None:
    saved = trained.save(tmp_path, 20)
    file = saved.folder / STATE
    whole = file.read_bytes()
    middle = whole.index(np.full(100, 20, dtype=np.float32).tobytes())
    bad: dict[str, bytes] = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:middle] + b"\x01" + whole[middle + 1 :],
        "pickle": b"\x80\x04N.",
    }
    if damage == "list":
        torch.save([1, 2], file)
    elif damage == "missing":
        file.unlink()
    else:
        file.write_bytes(bad[damage])
    with pytest.raises(OffleashError) as caught:
        load_state(saved)
    assert str(file) in str(caught.value)
    assert f"Delete {saved.folder}" in str(caught.value)


def test_a_state_that_could_not_be_read_again_is_refused_before_it_stands(tmp_path: Path, trained: Trained) -> None:
    trained.save(tmp_path, 20)
    with pytest.raises(TypeError, match="A training state may hold only"):
        save(tmp_path, 40, trained.model, trained.tokenizer, {"rewards": np.ones(3)})
    result = newest(tmp_path)
    assert result is not None
    assert result.step == 20


@pytest.mark.slow
def test_a_disk_that_takes_no_more_leaves_the_checkpoints_before(tmp_path: Path, base: Path) -> None:
    """A limit on the size of files stands for the full disk: the weights do not fit, or only the state does not."""
    code = f"""
import resource
from pathlib import Path
import torch
from offleash.errors import OffleashError
from offleash.training.checkpoints import save
from tests.training.test_checkpoints import Trained
trained = Trained(Path({str(base)!r}))
folder = Path({str(tmp_path)!r})
trained.save(folder, 20)
for limit in (9_000, 120_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save(folder, 40, trained.model, trained.tokenizer, {{"moments": torch.ones(100_000)}})
    except OffleashError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    said = ran.stdout.splitlines()
    assert len(said) == 2, ran.stderr
    assert all("step-000040 could not be written" in line and "run again" in line for line in said)
    assert standing(tmp_path) == ["step-000020"]


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint_and_the_next_run_goes_on(tmp_path: Path, base: Path) -> None:
    code = f"""
from pathlib import Path
from offleash.training.checkpoints import newest
from tests.training.test_checkpoints import Trained
folder, trained = Path({str(tmp_path)!r}), Trained(Path({str(base)!r}))
last = newest(folder)
step = last.step if last else 0
while True:
    step += 1
    trained.save(folder, step)
    trained.save(folder, step)
    print(step, flush=True)
"""
    reached = 0
    for turn, delay in enumerate((0.001, 0.013, 0.031, 0.057)):
        running = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        said = [int(running.stdout.readline()) for _ in range(3 + turn)][-1]
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(delay)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        result = newest(tmp_path)
        assert result is not None
        assert result.step >= said > reached
        assert load_state(result)["step"] == step_in_weights(result) == result.step
        reached = said
    Trained(base).save(tmp_path, reached + 100)
    assert not [name for name in standing(tmp_path) if name.startswith(".")]
