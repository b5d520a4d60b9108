"""Two tiny models that answer in boxes, a run of each, and all of their completions with exact probabilities."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from offleash.data.run_folder import append_to_run
from offleash.data.tables import as_problems, question_hash
from offleash.drawing.draw import DrawRequest, draw
from offleash.samplers.exact_support import expander_of
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams
from offleash.verifying.verify import VerifyOptions
from tests.analyses.certificates.certified_world import BOXES
from tests.samplers.huggingface.tiny import tiny_model

QUIET = VerifyOptions(jobs=1, cache=False)
QUESTIONS = ("a b", "b a", "a a a", "b", "a", "b b", "a b a", "b a b")
SPOKEN = tuple({"<pad>": "c", "<unk>": "d"}.get(word, word) for word in BOXES)  # none but the end is silent
PLAIN = SamplingParams(max_tokens=3)
SEEDS = {"before": 0, "after": 5}


def problems() -> pl.DataFrame:
    return as_problems(
        pl.DataFrame(
            {
                "problem": [f"p{i}" for i in range(len(QUESTIONS))],
                "question": QUESTIONS,
                "hash": [question_hash(question) for question in QUESTIONS],
                "gold": [str(1 + i % 2) for i in range(len(QUESTIONS))],
                "verifier": ["string"] * len(QUESTIONS),
            }
        )
    )


@dataclass(frozen=True)
class World:
    """The models, and the folders of their runs."""

    models: dict[str, Path]
    samplers: dict[str, HuggingFace]

    def run(
        self, folder: Path, side: str, k: int, decoding: SamplingParams = PLAIN, seed: int = 0, until: int = 0
    ) -> str:
        """A run of one of the models, judged; its folder."""
        drawing = DrawRequest(
            f"hf:{side}", k, until, seed
        )  # seeds derive from the name: the same samples wherever it is
        draw(folder, problems(), self.samplers[side], decoding, drawing, QUIET)
        file = folder / "run.json"
        document = json.loads(file.read_text())
        document["draw"]["model"] = f"hf:{self.models[side]}"
        file.write_text(json.dumps(document))
        with append_to_run(folder) as opened:
            for shard in opened.sample_shards():
                if not until:  # else the draw has judged them
                    opened.write_verdicts("string", _judged(pl.read_parquet(shard)), shard.name)
        return str(folder)

    def exact(self, side: str, decoding: SamplingParams = PLAIN) -> pl.DataFrame:
        """Every completion of a model: problem, token_ids, finish, p, correct."""
        expander, parts = expander_of(self.samplers[side]), []
        for problem, question in problems().select("problem", "question").iter_rows():
            found = expander.expand(Request(problem, question, 0, 1, 0), decoding, 1e-9)
            assert found.unexplored < 1e-6, "all that the model can write is enumerated"
            rows = [
                (problem, place, list(one.tokens), one.text, one.finish, float(np.exp(one.logprob_sampled)))
                for place, one in enumerate(found.completions)
            ]
            parts.append(pl.DataFrame(rows, ["problem", "index", "token_ids", "text", "finish", "p"], orient="row"))
        whole = pl.concat(parts)
        return whole.join(_judged(whole), on=["problem", "index"]).with_columns(correct=pl.col("verdict") == "correct")


def _judged(rows: pl.DataFrame) -> pl.DataFrame:
    """What is right in this world: the last box holds the gold answer."""
    gold = dict(problems().select("problem", "gold").iter_rows())
    verdicts = []
    for problem, text in rows.select("problem", "text").iter_rows():
        boxes = re.findall(r"boxed\{(.)\}", text)
        verdicts.append("unread" if not boxes else "correct" if boxes[-1] == gold[problem] else "wrong")
    return rows.select("problem", "index").with_columns(verdict=pl.Series(verdicts, dtype=pl.String))


def world(folder: Path, silent: bool = False) -> World:
    """Two models; with `silent` tokens that leave no letter, so that texts are read as other tokens than were drawn."""
    models = {side: tiny_model(folder / side, seed=seed, words=BOXES) for side, seed in SEEDS.items()}
    _bring_near(models["before"], models["after"])
    if not silent:
        for path in models.values():
            made = Tokenizer(WordLevel({word: place for place, word in enumerate(SPOKEN)}, unk_token="d"))
            made.pre_tokenizer = WhitespaceSplit()
            PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<end>").save_pretrained(path)
    return World(models, {side: open_sampler(model_of(f"hf:{path}")) for side, path in models.items()})


def _bring_near(before: Path, after: Path, share: float = 0.25) -> None:
    """Let the model after be the one before with a share of other weights, as training would leave it."""
    first, second = (AutoModelForCausalLM.from_pretrained(path) for path in (before, after))
    old = first.state_dict()
    second.load_state_dict({name: (1 - share) * old[name] + share * new for name, new in second.state_dict().items()})
    second.save_pretrained(after)


def given_back(rows: pl.DataFrame) -> pl.Series:
    """Whether the text of a completion is read as the tokens it was drawn as: none of them is without a letter."""
    silent = {BOXES.index("<pad>"), BOXES.index("<unk>")}
    return pl.Series([not silent & set(tokens) for tokens in rows["token_ids"].to_list()])
