"""Drawing: independent answers from the probabilities of a policy, for all problems at once."""

import numpy as np

from offleash.analyses.theory.world import Float, Integer


def draw(probability_XY: Float, samples: int, rng: np.random.Generator) -> Integer:
    """Ids of `samples` independent answers to each problem; an answer of probability 0 is never drawn.

    One search in all problems' cumulative probabilities, problem x moved up by x: ten times as fast as a search a
    problem. Probabilities are kept to about 1e-16 times the number of problems.
    """
    problems, answers = probability_XY.shape
    given_XY = probability_XY > 0
    below_XY = np.cumsum(probability_XY, axis=1)
    row_X1 = np.arange(problems)[:, None]
    at_XN = rng.random((problems, samples)) * below_XY[:, -1:] + row_X1
    place_XN = np.searchsorted((below_XY + row_X1).ravel(), at_XN.ravel(), side="right").reshape(at_XN.shape)
    # rounding may point before the first answer that is given, or past the last
    first_X, last_X = given_XY.argmax(axis=1), answers - 1 - given_XY[:, ::-1].argmax(axis=1)
    answer_XN: Integer = np.clip(place_XN - row_X1 * answers, first_X[:, None], last_X[:, None])
    return answer_XN
