"""Draw: every sample exactly once, the same whatever stops it, and what must not be mixed is refused."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

from offleash.api.compare import compare
from offleash.api.runs import load
from offleash.data.run import read_origin
from offleash.data.run_folder import append_to_run, open_run, verifiers
from offleash.drawing.draw import DrawRequest, budget, draw
from offleash.errors import OffleashError
from offleash.samplers.sampler import Request, SampleChunk, Sampler, SamplingParams
from offleash.samplers.scripted import Scripted
from offleash.samplers.seeds import seed_of
from offleash.verifying.verify import VerifyOptions, verify
from tests.drawing.drawn_world import PLAIN, QUIET, RATES, drawn, problems, sampler_of, samples, script


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return script(tmp_path / "base.json", RATES)


def test_every_index_of_every_problem_is_drawn_once_and_is_the_samplers(tmp_path: Path, base: Path) -> None:
    done = drawn(tmp_path / "run", base, 600)
    result = samples(tmp_path / "run")
    assert done.samples == done.new == result.height == 600 * len(RATES)
    assert result.select("problem", "index").n_unique() == result.height
    assert set(result["index"].unique()) == set(range(600))
    origin = read_origin(tmp_path / "run")
    assert origin is not None
    request = Request("p4", "", 0, 600, seed_of(origin.key, "p4"))
    (answer,) = sampler_of(base).sample([request], PLAIN)
    assert result.filter(pl.col("problem") == "p4")["text"].to_list() == [sample.text for sample in answer.samples]
    assert done.tokens == result["tokens"].sum()
    assert (done.reached, done.verifier, done.settled) == (None, None, len(RATES))


@pytest.mark.parametrize("until", [0, 3])
@pytest.mark.parametrize("settings", [{"width": "5", "appetite": "7"}, {"appetite": "100000"}])
def test_samples_are_the_same_however_many_are_asked_for_at_once(
    tmp_path: Path, base: Path, settings: dict[str, str], until: int
) -> None:
    drawn(tmp_path / "one", base, 300, until)
    drawn(tmp_path / "two", base, 300, until, settings=settings)
    assert samples(tmp_path / "one").equals(samples(tmp_path / "two"))


@pytest.mark.parametrize("until", [0, 3])
def test_a_larger_budget_adds_to_what_is_there(tmp_path: Path, base: Path, until: int) -> None:
    drawn(tmp_path / "steps", base, 100, until)
    before = {shard: shard.read_bytes() for shard in (tmp_path / "steps" / "samples").glob("*.parquet")}
    more = drawn(tmp_path / "steps", base, 1000, until)
    whole = drawn(tmp_path / "whole", base, 1000, until)
    assert samples(tmp_path / "steps").equals(samples(tmp_path / "whole"))
    assert 0 < more.new < whole.new
    assert all(shard.read_bytes() == content for shard, content in before.items())
    assert open_run(tmp_path / "steps").budget == open_run(tmp_path / "whole").budget
    less = drawn(tmp_path / "steps", base, 50, until)
    assert less.new == 0
    assert open_run(tmp_path / "steps").budget.k == 1000


def test_two_draws_with_one_seed_are_the_same_and_with_two_are_not(tmp_path: Path, base: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        drawn(tmp_path / name, base, 200, seed=seed)
    assert samples(tmp_path / "a").equals(samples(tmp_path / "b"))
    assert not set(samples(tmp_path / "a")["seed"]) & set(samples(tmp_path / "c")["seed"])


def test_what_would_mix_two_models_or_decodings_is_refused_with_both_values(tmp_path: Path, base: Path) -> None:
    run = tmp_path / "run"
    drawn(run, base, 20, until=2)
    for more, words in (
        ({"decoding": SamplingParams(temperature=0.6)}, r"temperature: stored 1.0, requested 0.6"),
        ({"seed": 1}, r"seed: stored 0, requested 1"),
        ({"until": 0}, r"--until: stored 2, requested 0"),
        ({"until": 3}, r"--until: stored 2, requested 3"),
        ({"settings": {"copies": "yes"}}, r"settings.copies: stored null, requested yes"),
        ({"count": 3}, r"problems: stored 7, requested 3\n  has problem 'p3': stored true, requested false"),
    ):
        with pytest.raises(OffleashError, match=words):
            drawn(run, base, **{"k": 20, "until": 2, **more})  # type: ignore[arg-type]
    with pytest.raises(OffleashError, match=r"requested .*other\.json"):
        drawn(run, script(tmp_path / "other.json", RATES), 20, 2)
    asked = problems(len(RATES)).with_columns(prompt=pl.col("question") + "!")
    with pytest.raises(OffleashError, match=r"(?s)prompt of problem 'p0': stored .*number is 0\?!"):
        draw(run, asked, sampler_of(base), PLAIN, DrawRequest(f"scripted:{base}", 20, 2), QUIET)
    script(base, RATES, template="Q: {prompt}\nA:")  # the same file, changed
    with pytest.raises(OffleashError, match=r"(?s)fingerprint.*chat template"):
        drawn(run, base, 20, 2)
    script(base, RATES)
    assert drawn(run, base, 20, 2).new == 0


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path, base: Path) -> None:
    with pytest.raises(OffleashError, match="temperature 0, all 4 samples"):
        drawn(tmp_path / "run", base, 4, decoding=SamplingParams(temperature=0))
    assert drawn(tmp_path / "greedy", base, 1, decoding=SamplingParams(temperature=0)).new == len(RATES)
    for k in (0, 16_384 * 64 + 1):
        with pytest.raises(OffleashError, match=f"found -k {k}"):
            drawn(tmp_path / "run", base, k)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(OffleashError, match="not empty"):
        drawn(tmp_path / "full", base, 4)
    drawn(tmp_path / "run", base, 4)
    with append_to_run(tmp_path / "run"), pytest.raises(OffleashError, match="Another process"):
        drawn(tmp_path / "run", base, 8)


def test_the_papers_budget_follows_the_benchmark() -> None:
    frame = problems(2)
    assert budget("8_192", frame) == 8192
    for names, k in (("aime24", 8192), ("scibench", 2048), ("reasoning_gym:leg_counting", 1024), (None, 16384)):
        assert budget("paper", frame.with_columns(benchmark=pl.lit(names, pl.String))) == k
    with pytest.raises(OffleashError, match=r"aime24 8,192, scibench 2,048"):
        budget("paper", frame.with_columns(benchmark=pl.Series(["aime24", "scibench"])))


def test_stopping_gives_the_table_of_the_full_draw_and_its_verdicts(tmp_path: Path) -> None:
    count, k = 40, 1000
    rates = {
        "base": [10 ** (-4 * i / count) * 0.8 for i in range(count)],
        "rl": [min(1.0, 10 ** (-5.5 * i / count)) for i in range(count)],
    }
    for name, some in rates.items():
        file = script(tmp_path / f"{name}.json", some)
        full = drawn(tmp_path / f"{name}-full", file, k, count=count)
        early = drawn(tmp_path / f"{name}-early", file, k, until=5, count=count)
        verify(tmp_path / f"{name}-full", QUIET)
        assert early.samples < 0.7 * full.samples
        assert early.settled == count
        again = verify(tmp_path / f"{name}-early", QUIET)
        assert again.judged == 0
        assert again.samples == early.samples
        both = samples(tmp_path / f"{name}-full").join(
            samples(tmp_path / f"{name}-early"), on=["problem", "index", "text", "seed"], how="semi"
        )
        assert both.height == early.samples, "the samples are those of the full draw"
    tables = {}
    for kind in ("full", "early"):
        first = compare(load(tmp_path / f"base-{kind}"), load(tmp_path / f"rl-{kind}"), replicates=200)
        tables[kind] = (first.change.P, first.change.E, first.change.S, first.change.O)
    assert tables["full"] == tables["early"]
    assert all(cell > 0 for cell in (tables["full"][0], tables["full"][2], tables["full"][3]))


def test_verdicts_lie_beside_the_samples_as_verify_writes_them(tmp_path: Path, base: Path) -> None:
    drawn(tmp_path / "run", base, 500, until=3)
    (name,) = verifiers(tmp_path / "run")
    folder = tmp_path / "run" / "verdicts" / name
    early = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    for file in folder.iterdir():
        file.unlink()
    verify(tmp_path / "run", QUIET)
    assert {file.name: file.read_bytes() for file in sorted(folder.iterdir())} == early


def test_samples_without_verdicts_are_judged_before_more_are_drawn(tmp_path: Path, base: Path) -> None:
    drawn(tmp_path / "run", base, 500, until=3)
    whole = samples(tmp_path / "run")
    for file in (tmp_path / "run" / "verdicts").rglob("*.parquet"):
        file.unlink()
    assert drawn(tmp_path / "run", base, 500, until=3).new == 0
    assert verify(tmp_path / "run", QUIET).judged == 0
    assert samples(tmp_path / "run").equals(whole)


@pytest.mark.parametrize("until", [0, 3])
def test_a_shard_that_is_deleted_is_drawn_again(tmp_path: Path, base: Path, until: int) -> None:
    for k in (60, 200, 400):
        drawn(tmp_path / "run", base, k, until)
    whole = samples(tmp_path / "run")
    shards = sorted((tmp_path / "run" / "samples").glob("*.parquet"))
    assert len(shards) >= 3
    shards[1].unlink()
    shards[-1].unlink()
    drawn(tmp_path / "run", base, 400, until)
    assert samples(tmp_path / "run").equals(whole)
    assert shards[-1].name not in {shard.name for shard in (tmp_path / "run" / "samples").glob("*.parquet")}
    if until:
        assert verify(tmp_path / "run", QUIET).judged == 0
        verdicts = open_run(tmp_path / "run").verdicts
        assert verdicts is not None
        assert verdicts.select("problem", "index").collect().n_unique() == whole.height


def test_requests_that_fail_are_noted_left_out_and_tried_again(tmp_path: Path, base: Path) -> None:
    run = tmp_path / "run"
    done = drawn(run, base, 1000, settings={"fail": "0.2"})
    rows = [json.loads(line) for line in (run / "failures.jsonl").read_text().splitlines()]
    assert done.failed == len(rows) > 0
    assert done.missing == sum(row["size"] for row in rows) == 1000 * len(RATES) - done.samples
    assert all("fail" in row["reason"] for row in rows)
    assert done.settled < len(RATES)
    again = drawn(run, base, 1000)
    assert (again.failed, again.new) == (0, done.missing)
    drawn(tmp_path / "whole", base, 1000)
    assert samples(run).equals(samples(tmp_path / "whole"))


def test_a_problem_with_a_gap_is_not_stopped_by_what_stands_behind_it(tmp_path: Path, base: Path) -> None:
    done = drawn(tmp_path / "run", base, 2000, until=4, settings={"fail": "0.3"})
    assert done.failed
    again = drawn(tmp_path / "run", base, 2000, until=4)
    assert again.settled == len(RATES)
    drawn(tmp_path / "whole", base, 2000, until=4)
    assert samples(tmp_path / "run").equals(samples(tmp_path / "whole"))


def test_a_sampler_that_only_fails_is_given_up(tmp_path: Path, base: Path) -> None:
    with pytest.raises(OffleashError, match=r"first 20 requests all failed for the same reason.*script says"):
        drawn(tmp_path / "run", base, 5000, settings={"fail": "1"})


def test_a_server_that_returns_copies_is_noticed(tmp_path: Path, base: Path) -> None:
    with pytest.raises(OffleashError, match="identical samples"):
        drawn(tmp_path / "run", base, 1000, settings={"copies": "yes"})


class Watched:
    """A scripted sampler that goes down after some requests, and knows which problems are open."""

    def __init__(self, inner: Sampler, requests: int | None = None, error: BaseException | None = None) -> None:
        self._inner, self._left = inner, requests
        self._error = error or OffleashError("The server is down.")
        self.open: set[str] = set()
        self.most = 0
        self.forgotten: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for request in requests:
            if self._left is not None:
                if not self._left:
                    raise self._error
                self._left -= 1
            self.open.add(request.problem)
            self.most = max(self.most, len(self.open))
            yield from self._inner.sample([request], decoding)

    def forget(self, problem: str) -> None:
        self.open.discard(problem)
        self.forgotten.append(problem)


def watched(file: Path, requests: int | None = None, error: BaseException | None = None, **settings: str) -> Watched:
    inner = sampler_of(file, **settings)
    assert isinstance(inner, Scripted)
    return Watched(inner, requests, error)


@pytest.mark.parametrize("until", [0, 3])
@pytest.mark.parametrize("error", [OffleashError("The server is down."), KeyboardInterrupt(), ValueError("a bug")])
def test_what_was_drawn_is_written_when_the_sampler_ends(
    tmp_path: Path, base: Path, until: int, error: BaseException
) -> None:
    sampler, options = watched(base, 12, error), DrawRequest(f"scripted:{base}", 700, until)
    with pytest.raises(type(error)):
        draw(tmp_path / "run", problems(len(RATES)), sampler, PLAIN, options, QUIET)  # type: ignore[arg-type]
    assert samples(tmp_path / "run").height > 0
    drawn(tmp_path / "run", base, 700, until)
    drawn(tmp_path / "whole", base, 700, until)
    assert samples(tmp_path / "run").equals(samples(tmp_path / "whole"))


def test_few_problems_are_open_at_a_time_and_all_are_forgotten(tmp_path: Path) -> None:
    count = 300
    file = script(tmp_path / "even.json", [0.2] * count)
    for until, most in ((0, 3), (5, 100)):
        sampler = watched(file, appetite="64")
        options = DrawRequest(f"scripted:{file}", 64, until)
        draw(tmp_path / f"run{until}", problems(count), sampler, PLAIN, options, QUIET)  # type: ignore[arg-type]
        assert sampler.most <= most
        assert sorted(sampler.forgotten) == sorted(f"p{i}" for i in range(count))


class Careless(Watched):
    """A sampler that leaves out a request of every batch, and a sample of another."""

    def sample(self, requests: Sequence[Request], decoding: SamplingParams) -> Iterator[SampleChunk]:
        for place, answer in enumerate(self._inner.sample(requests, decoding)):
            if place == 1:
                yield SampleChunk(answer.request, answer.samples[1:])
            elif place != 2:
                yield answer


def test_an_answer_that_is_not_what_was_asked_is_a_failed_request(tmp_path: Path, base: Path) -> None:
    sampler, options = Careless(sampler_of(base)), DrawRequest(f"scripted:{base}", 2000)
    done = draw(tmp_path / "run", problems(len(RATES)), sampler, PLAIN, options)  # type: ignore[arg-type]
    assert "the sampler returned nothing" in done.reasons
    assert "the sampler returned 255 samples instead of 256" in done.reasons
    assert done.samples + done.missing == 2000 * len(RATES)


def test_a_prompt_that_opens_the_reasoning_is_a_fact_that_verify_knows(tmp_path: Path) -> None:
    texts = {"p0": {"first 0 </think> \\boxed{0}": 0.2, "I think of \\boxed{0} and": 0.8}}  # none of these: 1 in 3,000
    file = tmp_path / "think.json"
    file.write_text(json.dumps({"problems": texts, "template": "{prompt}<think>\n"}))
    done = drawn(tmp_path / "run", file, 64, until=5, count=1)
    assert done.verifier is not None
    assert done.verifier.startswith("string.opened@")
    result = verify(tmp_path / "run", QUIET)
    assert (result.verifier, result.judged) == (done.verifier, 0)
    assert result.verdicts["unread"] > 0, "what never ends its reasoning is not searched for an answer"


def test_problems_that_cannot_be_judged_are_refused_before_anything_is_drawn(tmp_path: Path, base: Path) -> None:
    nameless = problems(len(RATES)).with_columns(verifier=pl.lit(None, pl.String))
    options = DrawRequest(f"scripted:{base}", 10, 2)
    with pytest.raises(OffleashError, match="do not name a verifier"):
        draw(tmp_path / "run", nameless, sampler_of(base), PLAIN, options, VerifyOptions(jobs=1, cache=False))
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_draw_without_a_sample_binds_the_next_to_nothing(tmp_path: Path, base: Path) -> None:
    run = tmp_path / "run"
    assert drawn(run, base, 5000, until=3, settings={"fail": "1"}).samples == 0
    assert (run / "failures.jsonl").exists()
    done = drawn(run, base, 50, seed=1, decoding=SamplingParams(temperature=0.5), count=5)
    assert done.samples == 250
    assert not (run / "failures.jsonl").exists()
    assert open_run(run).budget.k == 50
    assert open_run(run).problems.height == 5
    with pytest.raises(OffleashError, match="seed: stored 1, requested 0"):
        drawn(run, base, 50, decoding=SamplingParams(temperature=0.5), count=5)


def test_problems_that_came_to_nothing_are_told_from_those_with_gaps(tmp_path: Path, base: Path) -> None:
    # failures are seeded by the path of the model: one in sixty-four draws loses all problems or none
    short = [drawn(tmp_path / f"short{seed}", base, 20, seed=seed, settings={"fail": "0.5"}) for seed in range(6)]
    assert all(done.stuck == done.without_samples for done in short)
    assert any(0 < done.stuck < len(RATES) for done in short)
    done = drawn(tmp_path / "long", base, 2000, settings={"fail": "0.2"})
    assert done.stuck > done.without_samples


def test_a_draw_that_was_killed_between_its_first_two_files_goes_on(tmp_path: Path, base: Path) -> None:
    down, options = watched(base, 0), DrawRequest(f"scripted:{base}", 10)
    with pytest.raises(OffleashError, match="down"):
        draw(tmp_path / "run", problems(len(RATES)), down, PLAIN, options)  # type: ignore[arg-type]
    (tmp_path / "run" / "problems.parquet").unlink()
    assert drawn(tmp_path / "run", base, 10).samples == 10 * len(RATES)


def test_the_pace_tells_samples_problems_and_time(tmp_path: Path, base: Path) -> None:
    said: list[str] = []
    options = DrawRequest(f"scripted:{base}", 400, 3)
    sampler = sampler_of(base, delay="0.005")
    draw(tmp_path / "run", problems(len(RATES)), sampler, PLAIN, options, QUIET, said.append)
    assert any(re.search(r"of at most [\d,]+ samples, .* of 7 problems settled, \d reached", text) for text in said)
