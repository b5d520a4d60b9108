import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, permutations, product
from pathlib import Path

import pytest

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.lab.chain_sum import CHAIN_SUM, ERROR_SHARE, SETTINGS, generate, guess, lines, question, split_of, traces
from offleash.problems.countdown import SPLITS
from offleash.verifying.cases import ExtractionOptions, judge_texts, problem_cases
from offleash.verifying.verify import VerifyOptions, open_judge

chain_sum = pytest.importorskip("reasoning_gym.arithmetic.chain_sum")


def terms_of(text: str) -> tuple[int, ...]:
    """The signed terms of a question, read by another way than the module's own."""
    asked = text.partition(":")[2].replace(" ", "")
    return tuple(int(term) for term in re.findall(r"[+-]?\d+", asked))


def library(size: int, seed: int) -> Iterator[dict[str, str]]:
    dataset = chain_sum.ChainSumDataset(chain_sum.ChainSumConfig(seed=seed, size=size, **SETTINGS))
    yield from (dataset[index] for index in range(size))


def test_a_question_and_its_answer_are_those_of_the_library() -> None:
    for item in library(500, 7):
        terms = terms_of(item["question"])
        assert question(terms) == item["question"]
        assert str(sum(terms)) == item["answer"]


def test_problems_are_items_of_the_library() -> None:
    for row in generate("dev", 20, 3).iter_rows(named=True):
        entry = json.loads(row["details"])["entry"]
        dataset = chain_sum.ChainSumDataset(chain_sum.ChainSumConfig(seed=3_000_000, size=1_000_000, **SETTINGS))
        item = dataset[entry["metadata"]["source_index"]]
        assert (item["question"], item["answer"]) == (row["question"], row["gold"])
        assert (entry["question"], entry["answer"]) == (row["question"], row["gold"])


def test_a_set_belongs_to_its_part_and_asks_no_sum_twice() -> None:
    for part in SPLITS:
        terms = [terms_of(text) for text in generate(part, 200, 0)["question"]]
        assert {split_of(term) for term in terms} == {part}
        assert len({tuple(sorted(term)) for term in terms}) == 200


def test_a_longer_set_begins_with_the_shorter_one_and_another_seed_is_another_set() -> None:
    assert generate("dev", 40, 0).head(15).equals(generate("dev", 15, 0))
    shared = set(generate("dev", 40, 0)["problem"]) & set(generate("dev", 40, 1)["problem"])
    assert len(shared) < 10  # there are some hundred sums of two numbers of two digits in a part


def test_the_same_sum_turned_round_is_of_the_same_part() -> None:
    for terms in ((12, 34, -56), (880, 367)):
        assert len({split_of(permutation) for permutation in permutations(terms)}) == 1


def test_one_sum_in_sixteen_is_held_out_for_each_purpose() -> None:
    actual = Counter(split_of((first, second)) for first, second in product(range(10, 100), repeat=2))
    assert actual["dev"] / actual.total() == pytest.approx(1 / 16, abs=0.01)
    assert actual["test"] / actual.total() == pytest.approx(1 / 16, abs=0.01)


@pytest.mark.parametrize(("part", "seed", "words"), [("tests", 0, "Did you mean 'test'"), ("dev", -1, "found -1")])
def test_a_set_that_cannot_be_drawn_is_refused(part: str, seed: int, words: str) -> None:
    with pytest.raises(OffleashError, match=words):
        generate(part, 1, seed)


def test_the_corpus_is_of_the_part_train_and_as_often_wrong_as_said() -> None:
    actual = list(islice(lines(random.Random(0)), 4000))
    assert {split_of(terms_of(asked)) for asked, _ in actual} == {"train"}
    wrong = [abs(sum(terms_of(asked)) - int(said)) for asked, said in actual if int(said) != sum(terms_of(asked))]
    assert len(wrong) / len(actual) == pytest.approx(ERROR_SHARE, abs=0.03)
    assert set(wrong) <= {10**place for place in range(5)}


def test_the_corpus_has_forms_as_often_as_the_library() -> None:
    def forms(questions: list[str]) -> Counter[tuple[int, int]]:
        return Counter((len(terms_of(entry)), len(str(terms_of(entry)[0]))) for entry in questions)

    ours = forms([asked for asked, _ in islice(lines(random.Random(0)), 6000)])
    theirs = forms([item["question"] for item in library(6000, 0)])
    assert ours.keys() == theirs.keys()
    assert all(ours[form] / 6000 == pytest.approx(theirs[form] / 6000, abs=0.03) for form in theirs)


@pytest.mark.parametrize("terms", [(12, 34), (99, -10), (10, -99), (57, 57)])
def test_the_guess_floor_of_two_digits_is_what_enumeration_finds(terms: tuple[int, int]) -> None:
    every = [first + sign * second for first, second, sign in product(range(10, 100), range(10, 100), (1, -1))]
    assert guess(terms) == pytest.approx(every.count(sum(terms)) / len(every))


def test_the_guess_floor_of_three_terms_is_the_share_of_the_librarys_questions_with_that_answer() -> None:
    every = Counter(
        int(item["answer"])
        for item in library(60_000, 1)
        if len(terms_of(item["question"])) == 3 and len(str(terms_of(item["question"])[0])) == 2
    )
    for terms in ((20, 30, 40), (60, -50, 40), (20, -60, -30)):
        near = range(sum(terms) - 5, sum(terms) + 6)  # eleven neighbours together: one alone is seen too rarely
        share = sum(every[answer] for answer in near) / every.total()
        assert 11 * guess(terms) == pytest.approx(share, rel=0.15)


def test_the_expert_is_right_and_every_other_number_is_wrong() -> None:
    problems = generate("dev", 8, 0)
    with open_judge(VerifyOptions(cache=False)) as judge:
        cases = problem_cases(problems, None, ExtractionOptions(), "chain_sum")
        for name, (right,) in zip(problems["problem"], traces(problems), strict=True):
            texts = [right, *(str(int(right) + off) for off in (1, -1, 10, -100)), right + "0", "-" + right]
            result = judge_texts(judge, [cases[name]] * len(texts), texts, [False] * len(texts), False)
            assert [judged.verdict for _, judged in result] == [Verdict.CORRECT] + [Verdict.WRONG] * 6


@pytest.mark.parametrize("text", ["3901", "-17", question((1234, -567, 89)), question((10, 10))])
def test_a_text_comes_back_as_it_was_from_a_tokenizer_that_was_saved(text: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    CHAIN_SUM.tokenizer().save_pretrained(tmp_path)
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for tokenizer in (CHAIN_SUM.tokenizer(), read):
        tokens = tokenizer.encode(text)
        assert tokenizer.decode(tokens) == text
        assert tokenizer.backend_tokenizer.decode_batch([tokens]) == [text]
        assert tokenizer.unk_token_id not in tokens
    assert read.encode("3901") == [3, 9, 0, 1]
