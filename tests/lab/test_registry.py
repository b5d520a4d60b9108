import random
from itertools import islice

import pytest

from offleash.errors import OffleashError
from offleash.lab.registry import WORLDS, world
from offleash.lab.world import LabWorld
from tests.places import MODELS

every_world = pytest.mark.parametrize("one", WORLDS.values(), ids=WORLDS)


def test_a_world_is_found_by_its_name_and_a_slip_of_it_gets_the_nearest() -> None:
    assert all(world(name).name == name for name in WORLDS)
    with pytest.raises(OffleashError, match="Did you mean 'countdown'"):
        world("countdwn")


@every_world
def test_a_model_is_shipped_for_every_world_in_less_than_a_megabyte(one: LabWorld) -> None:
    sizes = [path.stat().st_size for path in (MODELS / one.name).iterdir()]
    assert (MODELS / one.name / "model.safetensors").exists()
    assert sum(sizes) < 1_000_000


@every_world
def test_a_line_of_the_corpus_fits_the_context_and_its_answer_the_longest_sample(one: LabWorld) -> None:
    pytest.importorskip("transformers")
    tokenizer = one.tokenizer()
    pairs = list(islice(one.lines(random.Random(0)), 2000))
    asked, said = (tokenizer(list(texts))["input_ids"] for texts in zip(*pairs, strict=True))
    assert max(len(tokens) + 1 for tokens in said) <= one.longest
    assert max(len(a) + len(s) + 1 for a, s in zip(asked, said, strict=True)) <= one.context


@every_world
def test_the_shipped_tokenizer_is_the_one_of_the_world(one: LabWorld) -> None:
    transformers = pytest.importorskip("transformers")
    shipped = transformers.AutoTokenizer.from_pretrained(MODELS / one.name)
    assert shipped.get_vocab() == one.tokenizer().get_vocab()
    for texts in islice(one.lines(random.Random(1)), 50):
        for text in texts:
            assert shipped.encode(text) == one.tokenizer().encode(text)
            assert shipped.unk_token_id not in shipped.encode(text)
