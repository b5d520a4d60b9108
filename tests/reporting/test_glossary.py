"""The glossary: every word once, one plain sentence each, the same on the page and in the documents."""

import re

import pytest

from offleash.comparing.captions import SPELT_OUT
from offleash.data.verdict import Verdict
from offleash.reporting.glossary import GLOSSARY, MISREADINGS, document
from offleash.stats.support_classes import Rule
from tests.places import ROOT

WRITTEN = ROOT / "docs" / "glossary.md"


def test_the_document_holds_the_words_of_the_page() -> None:
    renew = "renew it: python -m offleash.reporting.glossary > docs/glossary.md"
    assert WRITTEN.read_text(encoding="utf-8") == document(), renew


@pytest.mark.parametrize("term", GLOSSARY)
def test_a_meaning_is_one_sentence(term: str) -> None:
    meaning = GLOSSARY[term]
    assert meaning.endswith((".", "?"))
    assert not re.search(r"[.?!] [A-Z]", meaning), "a second sentence begins"
    assert len(meaning) < 260


def test_every_metric_rule_and_verdict_is_explained() -> None:
    for short, name in SPELT_OUT.items():
        assert GLOSSARY[short].lower().startswith(name)
    rules = {f"rule {rule.value}" for rule in Rule if rule is not Rule.CERTIFIED}
    assert rules <= set(GLOSSARY)
    assert {verdict.value for verdict in Verdict} <= set(GLOSSARY)


def test_every_way_to_be_misled_has_a_claim_and_an_answer() -> None:
    assert len({claim for claim, _ in MISREADINGS}) == len(MISREADINGS) >= 10
    assert all(claim.startswith("“") and claim.endswith("”") and answer.endswith(".") for claim, answer in MISREADINGS)


def test_the_rates_named_follow_from_their_formulas() -> None:
    assert 1 - 0.999**8192 > 0.999
    assert 1 - 0.9999**8192 > 0.5
    k = 10_000
    assert (1 - 3 / k) ** k == pytest.approx(0.05, abs=0.001)
    assert (1 - 0.7 / k) ** k == pytest.approx(0.5, abs=0.01)
