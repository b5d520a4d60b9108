"""The terms of the report, each in one plain sentence, and how a report can mislead.

`python -m offleash.reporting.glossary > docs/glossary.md` writes the same as a document.
"""

GLOSSARY: dict[str, str] = {
    # what is counted
    "problem": "What is asked: one text, with what is needed to decide whether an answer is correct.",
    "sample": "One completion that a model wrote for one problem.",
    "run": "All samples of one model on one set of problems, drawn with one decoding (temperature, top-p, length).",
    "benchmark": "A named set of problems; a run may hold several, and each is then also shown on its own.",
    "verdict": "What a verifier says of a sample: correct, wrong, unread or failed.",
    "correct": "The verifier found an answer in the sample, and it is right.",
    "wrong": "The verifier found an answer in the sample, and it is not right.",
    "unread": "No answer could be found in the sample: it counts as not correct, and its share is shown, because a "
    "format that a verifier misses is not a problem that a model cannot solve.",
    "failed": "The verifier itself timed out or crashed: the sample counts as not correct, and the table is also shown "
    "with all such samples right.",
    "truncated": "The sample was cut at the token limit before the model ended it.",
    "n": "Samples drawn per problem.",
    "k": "Samples per problem that a statement is about, the same for both runs: as many as every problem has, unless "
    "--at says less.",
    "budget": "Samples that a problem may get; a run that stops a problem at its m-th success may use fewer.",
    "target": "What is counted as reached or not: a problem, or with --per a different correct answer or solution.",
    # what is reached
    "reached": "In the support of a run, by the rule in force: by the rule seen, one of k samples or more is correct.",
    "support": "All problems (or answers, or solutions) that a run reaches.",
    "rule seen": "Reached means that at least one of k samples is correct, as in arXiv:2507.14843.",
    "rule above": "Reached means that more than a share tau of the samples is correct.",
    "rule confident": "Reached means that the rate is above epsilon with confidence 1 - zeta, not reached that it is "
    "below with the same confidence; what is neither is undetermined.",
    "rule posterior": "Reached means that the rate is probably above epsilon when all problems of the run are taken "
    "into account (empirical Bayes); a check of the others, never the headline.",
    "epsilon": "The largest success rate that k samples without a success are consistent with: -ln(zeta)/k, with "
    "zeta = 0.05.",
    "undetermined": "There are too few samples for the rule to decide whether the problem is reached.",
    "undecided": "A sample without a usable verdict, failed or not yet verified; where this could change the table, it "
    "is shown with all of them wrong and with all of them right.",
    # the table
    "P": "Preserved: how many problems both runs reach.",
    "E": "Expansion: how many problems only the run after reaches (gained).",
    "S": "Shrinkage: how many problems only the run before reaches (lost).",
    "O": "Out of support: how many problems neither run reaches with k samples.",
    "SRR": "Support retention rate, P/(P+S): the share of what was reached before that is kept.",
    "NDR": "Net discovery rate, E/(P+E): the share of what is reached after that is new.",
    "SDS": "Support dynamic score: the harmonic mean of SRR and NDR, high only if both are.",
    "NSCR": "Net support change rate, (E-S)/(P+E+S): what was gained minus what was lost, over all that either "
    "reached.",
    "macro mean": "The mean over benchmarks, each weighing the same, where pooled counts weigh them by their problems.",
    # how significant
    "interval": "The range of values that fit the data (95%), had other problems of the same kind been asked.",
    "band": "An interval around a whole curve: with 95% confidence all of the curve lies inside, not each point alone.",
    "chance": "What random sampling does: a problem solved about once in k samples may be reached by one run and not "
    "by the other, although nothing changed.",
    "exchange null": "The hypothesis that no problem's rate changed: the successes of a problem then fall on the two "
    "runs at random, which gives the losses and gains to expect.",
    "unchanged model, resampled": "How many losses and gains the exchange null expects for these counts.",
    "significant": "On a list of single problems of which, on average, at most 5% are false discoveries "
    "(Benjamini-Hochberg over all problems).",
    "at least N beyond chance": "With 95% confidence, at least N of the losses (or gains) are not chance; the "
    "lists say which ones.",
    "strength": "How many successes a loss or gain rests on: 1, 2 to 4, or 5 and more; c against none happens by "
    "chance about once in 2 to the power of c.",
    "McNemar": "An exact test of the net change: would a fair coin split the E+S problems that changed sides so "
    "unevenly?",
    "redraw": "What a second draw of the same model would show: losses and gains that are all chance.",
    "retest": "A value corrected for the redraw: the SRR is then 1, and the gain 0, for the same model drawn twice.",
    # over k
    "pass@k": "The chance that at least one of k samples is correct, mean over problems; pass@1 is the mean rate of "
    "success.",
    "unbiased estimator": "pass@k over all choices of k of the n samples drawn, 1 - C(n-c,k)/C(n,k) with c correct, "
    "instead of the first k alone.",
    "crossing": "The k beyond which the run before has the higher pass@k.",
    "equivalent budget": "How many samples of the run before do as well as one sample of the run after: the k at "
    "which its pass@k equals the other's pass@1.",
    "portfolio": "k samples split between the two runs, and the split that reaches the most problems.",
    # what else could explain it
    "guess floor": "How often a blind guess would be correct on a problem: given with it, or estimated from the wrong "
    "answers to other problems.",
    "guess-support": "Problems with a correct sample that are not correct significantly more often than by blind "
    "guessing.",
    "answer entropy": "How widely the answers to a problem are spread (nats): 0 when all samples give one answer.",
    "token entropy": "How uncertain the model is about the next token, mean over the tokens of its samples (nats).",
    "nats": "The unit of entropy with natural logarithms: ln(2), about 0.69, for two equally frequent answers.",
    "distinct answers": "How many different readable answers a number of samples contains, mean over problems.",
    "perplexity": "How surprising a text is to a model: e to the power of its mean negative log-likelihood per token.",
    "forks": "The 20% of tokens at which a model is most uncertain (arXiv:2506.01939).",
    "strategy": "How a correct sample got there, in canonical form whatever its wording; computed by a fingerprint.",
    "at equal token entropy": "A run drawn at the temperature at which its token entropy equals that of the other run, "
    "so that both explore alike.",
    "length of the leash": "How far a model is from its base: the KL divergence of whole samples, mean over problems "
    "(nats).",
    "within reach": "A model did not solve a problem, but k more of its samples would with a chance of at least 5%, "
    "by a lower bound from the other model's solutions.",
    "checkpoint": "One of several runs after the first, each compared with the first.",
}

MISLEADS: tuple[tuple[str, str], ...] = (
    (
        "“It is not reached, so the model cannot do it.”",
        "With k samples a rate of 3/k goes unseen one time in twenty, and one of 0.7/k every other time. "
        "State k; draw more, or use the rule confident, which says when it cannot decide.",
    ),
    (
        "“E problems are new abilities.”",
        "The run before may have been just under 1/k: one more success, and the problem would be P. Look at the "
        "successes on the side that has them, and draw the run before again, longer, on the E problems.",
    ),
    (
        "“E and S are above zero, so support changed.”",
        "Two draws of the same model show losses and gains too. Compare with the counts of an unchanged model, "
        "and quote the number that is significant.",
    ),
    (
        "“pass@1 rose, so the model reaches more.”",
        "A higher rate on what was already reached is sharpening. Support is about pass@k at large k, and a small p "
        "for a higher rate is no evidence of expansion.",
    ),
    (
        "“The model lost these problems.”",
        "It may write its answers in a form that the verifier does not read. Look at the shares of unread and "
        "truncated samples of both runs first, open some, and compare with --unread drop.",
    ),
    (
        "“It is reached, so the model can solve it.”",
        "Where few answers are possible, guessing reaches them: a guess among 1,000 integers succeeds within 8,192 "
        "samples with chance 1 - 0.999^8192, more than 0.999. Give the guess floor and read the table without "
        "guess-support.",
    ),
    (
        "“The verifier is right 99.99% of the time, so it does not matter.”",
        "Its false “correct” decides at large k: a rate of 1 in 10,000 puts 1 - 0.9999^8192, more than half, of "
        "the impossible problems into the support. Read the samples behind weak E and S (--flips), and the rate that "
        "would explain all of E.",
    ),
    (
        "“The run with more samples reaches more.”",
        "Of course it does. Both are cut to one k here; numbers from elsewhere may not be. Compare only at equal "
        "budgets, and several checkpoints together only at the same total.",
    ),
    (
        "“This is the support of the model.”",
        "It is the support of a model with a decoding and a prompt. top-p below 1 sets the chance of rare tokens to "
        "exactly zero, and a base asked in a chat template it never saw looks weaker than it is. Draw both runs alike, "
        "and try another decoding and template.",
    ),
    (
        "“These problems were lost: look how far they fell.”",
        "They were chosen and measured on the same samples, so their fall looks larger than it is. Confirm on new "
        "samples, or read the confirmation of split halves.",
    ),
    (
        "“On this benchmark there is an effect.”",
        "With many benchmarks one of them shows something by chance. Read the pooled table first, and treat a single "
        "benchmark as a question for a new draw.",
    ),
    (
        "“The model solved it by reasoning.”",
        "A problem that was in the training data is reached as well, and no count can detect it. Use problems made "
        "after the models, or generated ones.",
    ),
    (
        "“The interval covers all uncertainty.”",
        "It is about other problems like these, for these two sets of weights. Another training seed, decoding or "
        "verifier is not in it; compare methods over several training seeds.",
    ),
)


def document() -> str:
    """The glossary as Markdown: docs/glossary.md."""
    words = "\n".join(f"* **{term}**: {meaning}" for term, meaning in GLOSSARY.items())
    wrong = "\n".join(f"* **{claim}** {answer}" for claim, answer in MISLEADS)
    return (
        "# Glossary\n\n"
        "The words of the report, as the page itself explains them. Formulas and sources: [statistics](statistics.md). "
        "In a comparison the run *before* is mostly a base model and the run *after* the same model after "
        "reinforcement learning (RL).\n\n"
        f"{words}\n\n"
        "## How a report can mislead\n\n"
        "What one may conclude, and why that may be wrong.\n\n"
        f"{wrong}\n"
    )


if __name__ == "__main__":
    print(document(), end="")
