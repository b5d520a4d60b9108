"""Point estimates, p-values and exact bounds of random studies, against the second implementation, to 1e-9."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest

from tests.reference import chance, estimates
from tests.reference.agreement import Disagreements
from tests.reference.compared import SHORT, STUDIES, document, seeds
from tests.reference.studies import Problem, Record, Study, study

METRICS = ("SRR", "NDR", "SDS", "NSCR")
COVER = ("0.01", "0.1", "0.25", "0.5", "0.75", "0.9")


def records(problems: Sequence[Problem], run: str) -> list[Record]:
    """The records of one run."""
    return [getattr(problem, run) for problem in problems]


@pytest.mark.parametrize("seed", seeds(STUDIES, SHORT))
def test_tables_curves_and_benchmarks_agree(seed: int) -> None:
    case, check = study(seed), Disagreements(document(seed))
    k, problems = case.k, case.problems
    now = estimates.table(estimates.chances(problems, k))
    check.same("support.k", k)
    for name in ("P", "E", "S", "O", *METRICS):
        check.number(f"support.{name}", getattr(now, name))
    check.number("epsilon", -math.log(0.05) / k)
    check_redraw(check, "support.redraw", chance.redraw(problems, k))
    check.same("pass_at_k.before", {str(b): check.theirs(f"pass_at_k.before.{b}") for b in estimates.budgets(k)})
    for budget in estimates.budgets(k):
        table = estimates.table(estimates.chances(problems, budget))
        again = chance.redraw(problems, budget)
        for name in METRICS:
            check.number(f"curves.{name}.value.{budget}", getattr(table, name))
            check.number(f"curves.{name}.redraw.{budget}", getattr(again, name))
        for run in ("before", "after"):
            check.number(f"pass_at_k.{run}.{budget}", estimates.pass_at(records(problems, run), budget))
            if case.form == "log":
                prefix = estimates.pass_by_prefix(records(problems, run), budget)
                check.number(f"pass_at_k.prefix.{run}.{budget}", prefix)
    gap = None
    if k >= 256:
        gap = estimates.pass_at(records(problems, "before"), 256) - estimates.pass_at(records(problems, "after"), 1)
    check.number("pass_at_k.sampling_efficiency_gap.value", gap)
    for run in ("before", "after"):
        rates = [Fraction(record.c, record.n) for record in records(problems, run)]
        for tau in COVER:
            share = sum(rate >= Fraction(tau) for rate in rates) / len(rates)
            check.number(f"pass_at_k/cover/{run}/{tau}", share)
    for name in ("E", "S"):
        rate = estimates.tipping_rate(getattr(now, name), now.O, k)
        check.number(f"sensitivity.false_positive_rate_that_explains.{name}", rate)
    check.number("sensitivity.false_positive_rate_that_explains.both", estimates.shared_tipping_rate(now, k))
    check_benchmarks(case, check)
    assert check.lines == []


def check_redraw(check: Disagreements, path: str, again: estimates.Table) -> None:
    """What an unchanged model would show, beside a table."""
    for name in ("P", "E", "S", *METRICS):
        check.number(f"{path}.{name}", getattr(again, name))


def check_benchmarks(case: Study, check: Disagreements) -> None:
    """The table of each benchmark, and the mean over benchmarks of each rate where it is defined."""
    tables = {name: estimates.table(estimates.chances(part, case.k)) for name, part in case.benchmarks.items()}
    reached: dict[str, list[float]] = {"before": [], "after": []}
    for benchmark, part in case.benchmarks.items():
        check.same(f"benchmarks.{benchmark}.problems", len(part))
        for name in ("P", "E", "S", "O", *METRICS):
            check.number(f"benchmarks.{benchmark}.{name}", getattr(tables[benchmark], name))
        check_redraw(check, f"benchmarks.{benchmark}.redraw", chance.redraw(part, case.k))
        for run, shares in reached.items():
            shares.append(estimates.pass_at(records(part, run), case.k))
            check.number(f"benchmarks.{benchmark}.pass_at_1.{run}", estimates.pass_at(records(part, run), 1))
            check.number(f"benchmarks.{benchmark}.pass_at_k.{run}", shares[-1])
    if len(tables) == 1:
        check.same("macro.value", None)
        return
    for name in METRICS:
        values = [value for table in tables.values() if (value := getattr(table, name)) is not None]
        check.number(f"macro.value.{name}", estimates.mean(values) if values else None)
        check.same(f"macro.benchmarks.{name}", len(values))
    for run, shares in reached.items():
        check.number(f"macro.value.{run}", estimates.mean(shares))
    again = {name: chance.redraw(part, case.k) for name, part in case.benchmarks.items()}
    for name in METRICS:
        values = [getattr(tables[part], name) for part in tables]
        redrawn = [getattr(again[part], name) for part in tables]
        # which benchmarks go into the mean where only one of the two tables has the metric, no document says
        if None not in values and None not in redrawn:
            check.number(f"macro.redraw.{name}", estimates.mean(redrawn))
    check.number("macro.value.difference", estimates.mean(reached["after"]) - estimates.mean(reached["before"]))


@pytest.mark.parametrize("seed", seeds(STUDIES, SHORT))
def test_crossing_equivalent_budget_portfolio_and_forecast_agree(seed: int) -> None:
    case, check = study(seed), Disagreements(document(seed))
    k, problems = case.k, case.problems
    crossing = estimates.crossing(problems, k)
    check.same("crossing.sign_changes", crossing.sign_changes)
    check.number("crossing.k", crossing.k)
    for of in estimates.budgets(k):
        check_equivalent(check, f"equivalent_budget/kappa/{of}/value", estimates.equivalent(problems, of, k), of)
    check_equivalent(check, "equivalent_budget.k", estimates.equivalent(problems, 1, k), 1)
    if len(problems) > 1:
        check.same("portfolio.k", k)
        curve = check.theirs("portfolio.curve")
        for split in curve:
            value = estimates.portfolio(problems, int(split), k - int(split))
            check.number(f"portfolio/curve/{split}", value)
        check.number("portfolio.all_before", estimates.portfolio(problems, k, 0))
        check.number("portfolio.all_after", estimates.portfolio(problems, 0, k))
        best = check.theirs("portfolio.before_samples")
        if all(abs(curve[str(alone)] - max(curve.values())) <= 1e-12 for alone in (0, k)):
            check.same("portfolio.before_samples", None)  # no split reaches more than either run alone
            check.same("portfolio.after_samples", None)
        else:
            check.number(f"portfolio/curve/{best}", max(curve.values()), 1e-12)
            check.same("portfolio.after_samples", k - best)
    for run in ("before", "after"):
        newly = estimates.good_toulmin([record.c for record in records(problems, run)])
        check.number(f"forecast.{run}.newly_reached_at_2n", newly)
    assert check.lines == []


def check_equivalent(check: Disagreements, path: str, equivalent: estimates.Equivalent, of: int) -> None:
    """Samples of the run before per sample of the run after; on a plateau there is no single answer to compare."""
    if equivalent.k is None:
        check.same(path, None)
    elif not equivalent.plateau:
        check.number(path, equivalent.k / of)


def pairs_of(problems: Sequence[Problem]) -> list[chance.Pair]:
    """All counts of both runs, as tests use them."""
    return [chance.Pair(p.name, p.before.n, p.before.c, p.after.n, p.after.c) for p in problems]


@pytest.mark.parametrize("seed", seeds(STUDIES, SHORT))
def test_tests_against_chance_agree(seed: int) -> None:
    case, check = study(seed), Disagreements(document(seed))
    pairs = pairs_of(case.problems)
    check_losses(check, pairs, "S", ("losses_at_least", "lost", "fallen"))
    check_losses(check, [pair.swapped() for pair in pairs], "E", ("gains_at_least", "gained", "risen"))
    check.number("chance.expected_at_k", chance.redraw(case.problems, case.k).E)
    check_net(case, check, pairs)
    check_power(check, pairs)
    half = min(case.k, min(problem.before.n for problem in case.problems) // 2)
    if half:
        retest = chance.retest(case.problems, half)
        check.same("chance.retest.k", half)
        for name in ("net_ratio", "gain", "observed_SRR", "redraw_SRR", "redraw"):
            check.number(f"chance.retest.{name}", getattr(retest, name))
    else:
        check.same("chance.retest.net_ratio", None)
        check.same("chance.retest.gain", None)
    assert check.lines == []


def check_net(case: Study, check: Disagreements, pairs: Sequence[chance.Pair]) -> None:
    """McNemar at equal numbers of samples: all where both runs have as many, else the first k; counts have no order."""
    if any(pair.n_before != pair.n_after for pair in pairs):
        if case.form != "log":
            check.same("chance.mcnemar_p", None)
            return
        pairs = pairs_of([problem.first(case.k) for problem in case.problems])
    E, S = sum(pair.swapped().lost for pair in pairs), sum(pair.lost for pair in pairs)
    check.probability("chance.mcnemar_p", chance.mcnemar(E, S))
    check.probability("chance.mcnemar_p_adjusted", chance.mcnemar(E, S))


def check_power(check: Disagreements, pairs: Sequence[chance.Pair]) -> None:
    """What the lists accept, what a study can count on, and what few gains are worth."""
    sizes = Counter((pair.n_before, pair.n_after) for pair in pairs).most_common()
    N = len(pairs)
    if len(sizes) == 1 or sizes[0][1] > sizes[1][1]:  # of two numbers of samples as common, either is that of most
        (n_before, n_after), _ = sizes[0]
        check.same("chance.listed_from.samples", [n_before, n_after])
        check.same("chance.successes_needed", chance.successes_needed(n_before, n_after, N))
        for key, side, sizes_of in (
            ("lost", pairs, (n_before, n_after)),
            ("gained", [pair.swapped() for pair in pairs], (n_after, n_before)),
        ):
            listed = len(chance.benjamini_hochberg({pair.name: chance.loss_p(pair) for pair in side}))
            level = Fraction(max(listed, 1), 20 * N)  # an empty list would accept a p of 5%/N
            check.same(f"chance.listed_from.{key}", chance.fewest_successes(*sizes_of, level))
    candidates = [pair for pair in pairs if pair.c_before == 0]
    check.same("chance.gain_power.problems", N)
    check.same("chance.gain_power.candidates", len(candidates))
    if not candidates:
        return
    gained, fewest = sum(pair.c_after > 0 for pair in candidates), min(pair.n_after for pair in candidates)
    check.same("chance.gain_power.gained", gained)
    check.same("chance.gain_power.samples", fewest)
    for place, at in enumerate(check.theirs("chance.gain_power.at")):
        rate = min(1.0, -math.log(0.05) / fewest * 4.0 ** (place - 1))
        here = Disagreements(at)
        here.number("rate", rate)
        here.number("chance_seen", 1 - (1 - rate) ** fewest)
        here.same("at_most", chance.gains_at_most(gained, [pair.n_after for pair in candidates], rate))
        check.lines += [f"gain_power {place}: {line}" for line in here.lines]


def class_of(pair: chance.Pair) -> str:
    """P, E, S or O by all samples of each run."""
    if pair.c_before:
        return "P" if pair.c_after else "S"
    return "E" if pair.c_after else "O"


@pytest.mark.parametrize("seed", seeds(STUDIES, SHORT))
def test_every_problem_agrees(seed: int) -> None:
    """The rows of `problems`: counts, did the rate change, and q over all problems."""
    case, document_of = study(seed), document(seed)
    pairs = {pair.name: pair for pair in pairs_of(case.problems)}
    rows = document_of["problems"]
    assert [row["id"] for row in rows] == sorted(pairs)
    p = [chance.two_sided_p(pairs[row["id"]]) for row in rows]
    loss = {name: chance.loss_p(pair) for name, pair in pairs.items()}
    gain = {name: chance.loss_p(pair.swapped()) for name, pair in pairs.items()}
    loss_q, gain_q = (dict(zip(of, chance.adjusted(list(of.values())), strict=True)) for of in (loss, gain))
    lines = []
    for row, value, q in zip(rows, p, chance.adjusted(p), strict=True):
        pair, check = pairs[row["id"]], Disagreements(row)
        for key in ("n_before", "c_before", "n_after", "c_after"):
            check.same(key, getattr(pair, key))
        check.probability("p", float(value))
        check.probability("q", float(q))
        fell = pair.c_before * pair.n_after > pair.c_after * pair.n_before
        if abs(q - Fraction(1, 20)) > 1e-12:
            check.same("change", ("fell" if fell else "rose") if q <= Fraction(1, 20) else None)
        # docs/json.md says of these three both "the first k samples" and that they are the lists of `chance`, which are
        # in all samples: the second is checked
        check.same("class", class_of(pair))
        if class_of(pair) in "ES":
            tests = (loss, loss_q) if pair.lost else (gain, gain_q)
            for key, of in zip(("p_class", "q_class"), tests, strict=True):
                check.probability(key, float(of[pair.name]))
        lines += [f"{pair.name} {line}" for line in check.lines]
    assert lines == []


def check_losses(check: Disagreements, pairs: Sequence[chance.Pair], cell: str, keys: tuple[str, str, str]) -> None:
    """Everything about losses; about gains with the runs swapped."""
    null = chance.exchange_null(pairs)
    check.same(f"chance.observed_{cell}", null.observed)
    check.probability(f"chance.expected_{cell}", null.expected)
    check.probability(f"chance.p_{cell}", null.p)
    check.probability(f"chance.p_{cell}_adjusted", null.p)  # one run after the first: nothing to correct for
    check.probability(f"chance.mid_p_{cell}", null.mid_p)
    check.same(f"chance.strength.{cell}", chance.strength(pairs))
    confirmation = chance.confirmation(pairs)
    check.number(f"chance.confirmation.{cell}.confirmed", confirmation.confirmed)
    check.number(f"chance.confirmation.{cell}.redraw", confirmation.redraw)
    bound, lost, fallen = keys
    check.same(f"chance.{bound}", chance.losses_at_least(pairs))
    for key, test in ((lost, chance.loss_p), (fallen, chance.fall_p)):
        p = {pair.name: test(pair) for pair in pairs}
        listed = check.theirs(f"chance.{key}")
        if set(listed) != set(chance.benjamini_hochberg(p)):
            check.lines.append(f"chance.{key}: {listed}, reference {list(chance.benjamini_hochberg(p))}")
        elif [p[name] for name in listed] != sorted(p[name] for name in listed):
            check.lines.append(f"chance.{key}: {listed} is not smallest p first")


@pytest.mark.parametrize("seed", seeds(STUDIES, SHORT))
def test_guess_support_with_given_floors_agrees(seed: int) -> None:
    case, check = study(seed), Disagreements(document(seed))
    floors = {problem.name: problem.floor for problem in case.problems if problem.floor}
    if not floors:
        check.same("guessing.problems", {})
    for run in ("before", "after") if floors else ():
        check.same(f"guessing.tested.{run}", len(floors))
        at_floor = [
            problem.name
            for problem in case.problems
            if chance.at_the_floor(getattr(problem, run).n, getattr(problem, run).c, problem.floor or 0.0)
        ]
        if sorted(check.theirs(f"guessing.problems.{run}")) != at_floor:
            check.lines.append(f"{run}: {check.theirs(f'guessing.problems.{run}')}, reference {at_floor}")
        check.same(f"guessing.guess_support.{run}", len(at_floor))
    if floors:
        check_without_guesses(case, check)
    assert check.lines == []


def check_without_guesses(case: Study, check: Disagreements) -> None:
    """The table at k with guess-support as not reached, and its mean over all divisions of both runs' successes."""

    def reached(n: int, c: int, floor: float) -> float:
        return 0.0 if chance.at_the_floor(n, c, floor) else 1 - estimates.misses(n, c)[case.k]

    now, again = [], []
    for problem, pair in zip(case.problems, pairs_of(case.problems), strict=True):
        floor, both = problem.floor or 0.0, pair.c_before + pair.c_after
        now.append((reached(pair.n_before, pair.c_before, floor), reached(pair.n_after, pair.c_after, floor)))
        for c, weight in chance.hypergeometric_law(pair):
            a, b = reached(pair.n_before, c, floor), reached(pair.n_after, both - c, floor)
            again.append((float(weight), a, b))
    table = estimates.table(now)
    for name in ("P", "E", "S", "O", *METRICS):
        check.number(f"guessing.support_without.{name}", getattr(table, name))
    redrawn = estimates.Table(
        math.fsum(w * a * b for w, a, b in again),
        math.fsum(w * (1 - a) * b for w, a, b in again),
        math.fsum(w * a * (1 - b) for w, a, b in again),
        math.fsum(w * (1 - a) * (1 - b) for w, a, b in again),
    )
    check_redraw(check, "guessing.support_without.redraw", redrawn)
