"""The terms of the report, each in one plain sentence, and how a report can mislead.

`python -m offleash.reporting.glossary > docs/glossary.md` writes the same as a document.
"""

# grouped by topic, roughly in the order in which a reader of the page meets the terms
GLOSSARY: dict[str, str] = {
    # what is counted
    "problem": "One question, with what is needed to decide whether an answer to it is correct.",
    "sample": "One completion that a model wrote for one problem.",
    "run": "All samples of one model on one set of problems, drawn with one decoding (temperature, top-p, length).",
    "benchmark": "A named set of problems; a run may hold several, and each is then also shown on its own.",
    "verdict": "A verifier's judgement of a sample: correct, wrong, unread or failed.",
    "correct": "The verifier extracted an answer from the sample and accepted it.",
    "wrong": "The verifier extracted an answer from the sample and rejected it.",
    "unread": "No answer could be extracted from the sample: it counts as not correct, and the share of such samples "
    "is shown, because an answer format that the verifier misses does not mean that the model cannot solve the "
    "problem.",
    "failed": "The verifier itself timed out or crashed: the sample counts as not correct, and the table is also shown "
    "with all such samples correct.",
    "truncated": "The sample hit the token limit before the model ended it.",
    "n": "Samples drawn per problem.",
    "k": "Samples per problem that a result refers to, the same for both runs: as many as every problem has, unless "
    "--at sets fewer.",
    "budget": "Maximum number of samples per problem; a run that stops a problem at its m-th success may use fewer.",
    "target": "What counts as reached or not: a problem or, with --per, each distinct correct answer or solution.",
    # what is reached
    "reached": "In the support of a run, by the rule in force; by the rule seen, at least one of k samples is correct.",
    "support": "All problems (or answers, or solutions) that a run reaches.",
    "rule seen": "Reached means that at least one of k samples is correct, as in arXiv:2507.14843.",
    "rule above": "Reached means that the share of correct samples is at least tau (and above 0).",
    "rule confident": "Reached means that the success rate is above epsilon with confidence 1 - zeta, not reached that "
    "it is below epsilon with the same confidence; otherwise the problem is undetermined.",
    "rule posterior": "Reached means that the success rate is above epsilon with high posterior probability, given all "
    "problems of the run (empirical Bayes); a check on the other rules, never the headline.",
    "epsilon": "The largest success rate that k samples without a success are consistent with: -ln(zeta)/k, with "
    "zeta = 0.05.",
    "undetermined": "There are too few samples for the rule to decide whether the problem is reached.",
    "undecided": "A sample without a usable verdict, failed or not yet verified; where this could change the table, a "
    "warning gives the smallest and the largest value of each number.",
    # the table
    "P": "Preserved: the number of problems that both runs reach.",
    "E": "Expansion: the number of problems that only the run after reaches (gained).",
    "S": "Shrinkage: the number of problems that only the run before reaches (lost).",
    "O": "Out of support: the number of problems that neither run reaches with k samples.",
    "SRR": "Support retention rate, P/(P+S): the share of what was reached before that is kept.",
    "NDR": "Net discovery rate, E/(P+E): the share of what is reached after that is new.",
    "SDS": "Support dynamic score: the harmonic mean of SRR and NDR, high only if both are.",
    "NSCR": "Net support change rate, (E-S)/(P+E+S): gained minus lost, over all that either run reached.",
    "macro mean": "The mean over benchmarks with equal weights; pooled counts weight them by their number of problems.",
    # how significant
    "interval": "A 95% range for a value, from resampling the problems (bootstrap): how much it would vary with "
    "other problems of the same kind.",
    "band": "An interval for a whole curve: with 95% confidence all of the curve lies inside, not just each point.",
    "chance": "Sampling noise: a problem solved about once in k samples may be reached by one run and not by the "
    "other, although nothing changed.",
    "exchange null": "The hypothesis that no problem's success rate changed: the successes of a problem then fall in "
    "the two runs at random, which gives the expected losses and gains.",
    "unchanged model, resampled": "The number of losses and gains expected under the exchange null.",
    "significant": "Unlikely under chance alone at the stated level: 95% confidence, or a false discovery rate (FDR) "
    "of 5% for lists of single problems (Benjamini-Hochberg over all problems).",
    "the rate fell on at least N": "With joint 95% confidence, the success rate fell on at least N of the lost "
    "problems (or rose on at least N of the gained ones); this does not say which ones, or whether more samples would "
    "reach them.",
    "strength": "How many successes a loss or gain rests on: 1, 2 to 4, or 5 and more; if nothing changed, all of c "
    "successes fall in one given run with probability about 2^-c.",
    "McNemar": "An exact test of the net change: how likely is so uneven a split of the E+S changed problems, if "
    "gains and losses are equally likely?",
    "redraw": "What a second draw from the same model would show: losses and gains that are all chance.",
    "unchanged model": "What two draws of one model would show in place of the two runs: its SRR is below 1 and its "
    "NDR above 0, by chance alone.",
    "net ratio": "How much both runs reach, against two draws of the run before (1 for the same model): higher "
    "rates offset losses, so it is not the share that was kept, and it can be 1 although much was lost.",
    # over k
    "pass@k": "The chance that at least one of k samples is correct, averaged over problems; pass@1 is the mean "
    "success rate.",
    "unbiased estimator": "pass@k averaged over all subsets of k of the n samples drawn, 1 - C(n-c,k)/C(n,k) with c "
    "correct, instead of using the first k alone.",
    "crossing": "The k beyond which the run before has the higher pass@k.",
    "equivalent budget": "How many samples of the run before do as well as one sample of the run after: the k at "
    "which its pass@k equals the other run's pass@1.",
    "portfolio": "A budget of k samples split between the two runs so as to reach the most problems.",
    # what else could explain it
    "guess floor": "How often a blind guess would be correct: given with the problem, or estimated from wrong "
    "answers to other problems.",
    "guess-support": "Problems with a correct sample that are not solved significantly more often than by blind "
    "guessing.",
    "answer entropy": "How spread out the answers to a problem are (nats): 0 when all samples give the same answer.",
    "token entropy": "How uncertain the model is about the next token, averaged over the tokens of its samples (nats).",
    "nats": "The unit of entropy with natural logarithms: ln(2), about 0.69, for two equally frequent answers.",
    "distinct answers": "The number of distinct readable answers among a given number of samples, averaged over "
    "problems.",
    "perplexity": "How surprising a text is to a model: e to the power of its mean negative log-likelihood per token.",
    "forks": "The 20% of tokens at which a model is most uncertain (arXiv:2506.01939).",
    "strategy": "How a correct sample got there, in a canonical form that ignores wording; computed by a fingerprint.",
    "at equal token entropy": "A run drawn at the temperature at which its token entropy equals that of the other run, "
    "so that both are equally random.",
    "length of the leash": "How far a model is from its base: the KL divergence of whole samples, mean over problems "
    "(nats).",
    "within reach": "A model did not solve a problem, but k more samples would solve it with a chance of at least "
    "5%, by a lower bound computed from the other model's solutions.",
    "checkpoint": "One of several runs after the first, each compared with the first.",
}

# each a tempting conclusion, then why it may be wrong and what to do instead
MISREADINGS: tuple[tuple[str, str], ...] = (
    (
        "“It is not reached, so the model cannot do it.”",
        "With k samples a rate of 3/k goes unseen one time in twenty, and one of 0.7/k every other time. "
        "Report k; draw more samples, or use the rule confident, which says when it cannot decide.",
    ),
    (
        "“E problems are new abilities.”",
        "The success rate of the run before may be just under 1/k: with one more success the problem would be P. Check "
        "how many successes the run after has, and draw more samples from the run before on the E problems.",
    ),
    (
        "“E and S are above zero, so support changed.”",
        "Two draws of the same model show losses and gains too. Compare with the counts expected for an unchanged "
        "model, and report the number on which the rate changed significantly.",
    ),
    (
        "“pass@1 rose, so the model reaches more.”",
        "A higher rate on what was already reached is sharpening. Support is about pass@k at large k, and a small p "
        "for a higher rate is not evidence of expansion.",
    ),
    (
        "“The model lost these problems.”",
        "It may write its answers in a format that the verifier does not read. First check the shares of unread and "
        "truncated samples in both runs, read some of them, and compare with --unread drop.",
    ),
    (
        "“It is reached, so the model can solve it.”",
        "Where few answers are possible, guessing is enough: a guess among 1,000 integers succeeds within 8,192 "
        "samples with chance 1 - 0.999^8192, more than 0.999. Set the guess floor and read the table without "
        "guess-support beside that of an unchanged model: near the floor, chance decides what counts as a guess.",
    ),
    (
        "“The verifier is right 99.99% of the time, so it does not matter.”",
        "Its false positives decide at large k: a rate of 1 in 10,000 puts 1 - 0.9999^8192, more than half, of "
        "the unsolvable problems into the support. Read the samples behind weak E and S (--flips), and see which "
        "false-positive rate would explain E and S (--json). A verifier shared by both runs inflates both, so it does "
        "not explain why one of them is much larger.",
    ),
    (
        "“The run with more samples reaches more.”",
        "Of course it does. Here both are compared at the same k; numbers from elsewhere may not be. Compare only at "
        "equal budgets, and a union of checkpoints only at the same total.",
    ),
    (
        "“This is the support of the model.”",
        "It is the support of a model with a decoding and a prompt. top-p below 1 sets the chance of rare tokens to "
        "exactly zero, and a base model prompted in a chat template it never saw looks weaker than it is. Draw both "
        "runs with the same settings, and try another decoding and template.",
    ),
    (
        "“These problems were lost: look how far they fell.”",
        "They were selected and measured on the same samples, so the drop looks larger than it is. Confirm it on new "
        "samples, or see how many show in both halves of the samples (--json, confirmation).",
    ),
    (
        "“On this benchmark there is an effect.”",
        "With many benchmarks some show an effect by chance. Read the pooled table first, and treat an effect on a "
        "single benchmark as a hypothesis for a new draw.",
    ),
    (
        "“The model solved it by reasoning.”",
        "A problem that was in the training data is reached as well, and counts cannot detect contamination. Use "
        "problems published after the models, or generated ones.",
    ),
    (
        "“The interval covers all uncertainty.”",
        "It covers the choice of problems, for these two sets of weights. It does not cover another training seed, "
        "decoding or verifier; compare methods over several training seeds.",
    ),
)


def document() -> str:
    """The glossary as Markdown: docs/glossary.md."""
    terms = "\n".join(f"* **{term}**: {meaning}" for term, meaning in GLOSSARY.items())
    misreadings = "\n".join(f"* **{claim}** {answer}" for claim, answer in MISREADINGS)
    return (
        "# Glossary\n\n"
        "The terms of the report, as the page itself defines them. Formulas and sources: [statistics](statistics.md). "
        "In a comparison the run *before* is usually a base model and the run *after* the same model after "
        "reinforcement learning (RL).\n\n"
        f"{terms}\n\n"
        "## How a report can mislead\n\n"
        "Tempting conclusions, and why they may be wrong.\n\n"
        f"{misreadings}\n"
    )


if __name__ == "__main__":
    print(document(), end="")
