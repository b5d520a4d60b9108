"""Table 4 of arXiv:2507.14843v4: what counts alone would have announced in a published training, and when.

DAPO on DeepSeek-R1-Distill-Qwen-1.5B, one training, pass@256, a look every 30 steps: the numbers of problems kept (P),
gained (E), lost (S) and never reached (O). The table has neither entropies nor rewards, so it cannot say which signal
came first; nor counts of single problems, so losses cannot be separated from those that resampling the base would
show, too. What it can say is when significantly more problems were lost than gained: the exact McNemar test, its 5%
shared among the ten looks.
"""

from offleash.stats.chance import mcnemar
from research.early_warning.report import Published
from research.early_warning.rule import FALSE_ALARM

STEPS = tuple(range(30, 301, 30))
# (P, E, S, O) after each of STEPS
COUNTS: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "AIME24": (
        (24, 0, 1, 5), (24, 0, 1, 5), (25, 0, 0, 5), (24, 0, 1, 5), (24, 0, 1, 5),
        (25, 0, 0, 5), (23, 0, 2, 5), (22, 0, 3, 5), (22, 0, 3, 5), (22, 0, 3, 5),
    ),
    "AIME25": (
        (19, 2, 2, 7), (19, 3, 2, 6), (19, 2, 2, 7), (19, 3, 2, 6), (19, 3, 2, 6),
        (19, 0, 2, 9), (19, 1, 2, 8), (19, 1, 2, 8), (19, 0, 2, 9), (18, 2, 3, 7),
    ),
    "AMC23": ((39, 0, 0, 1),) * 10,
    "MATH500": (
        (494, 0, 2, 4), (494, 0, 2, 4), (495, 1, 1, 3), (494, 1, 2, 3), (494, 0, 2, 4),
        (495, 0, 1, 4), (493, 1, 3, 3), (492, 1, 4, 3), (492, 0, 4, 4), (488, 1, 8, 3),
    ),
    "Minerva": (
        (159, 10, 11, 92), (158, 5, 12, 97), (157, 11, 13, 91), (162, 9, 8, 93), (161, 9, 9, 93),
        (154, 8, 16, 94), (157, 7, 13, 95), (160, 7, 10, 95), (154, 7, 16, 95), (155, 4, 15, 98),
    ),
    "Olympiad": (
        (572, 13, 22, 68), (570, 16, 24, 65), (571, 10, 23, 71), (571, 13, 23, 68), (567, 10, 27, 71),
        (561, 6, 33, 75), (550, 9, 44, 72), (553, 6, 41, 75), (542, 7, 52, 74), (533, 5, 61, 76),
    ),
}  # fmt: skip
OVERALL = "all six"


def published() -> tuple[Published, ...]:
    """Each data set of Table 4, and all together."""
    pooled = tuple(
        (sum(cell[0] for cell in at), sum(cell[1] for cell in at), sum(cell[2] for cell in at), 0)
        for at in zip(*COUNTS.values(), strict=True)
    )
    return tuple(_monitored(name, cells) for name, cells in {**COUNTS, OVERALL: pooled}.items())


def _monitored(name: str, cells: tuple[tuple[int, int, int, int], ...]) -> Published:
    p_T = tuple(mcnemar(E, S) for _, E, S, _ in cells)
    net_T = tuple(S > E for _, E, S, _ in cells)
    significant_T = [net and p <= FALSE_ALARM / len(STEPS) for p, net in zip(p_T, net_T, strict=True)]
    alone_T = [net and p <= FALSE_ALARM for p, net in zip(p_T, net_T, strict=True)]
    return Published(
        name=name,
        steps_T=STEPS,
        gained_T=tuple(E for _, E, _, _ in cells),
        lost_T=tuple(S for _, _, S, _ in cells),
        p_T=p_T,
        seen=_first(net_T),
        alone=_first(alone_T),
        resolved=_first(significant_T),
        stays=True not in significant_T or all(significant_T[significant_T.index(True) :]),
    )


def _first(flag_T: list[bool] | tuple[bool, ...]) -> int | None:
    return next((step for step, flag in zip(STEPS, flag_T, strict=True) if flag), None)
