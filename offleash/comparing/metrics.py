"""The metrics in words: their names spelt out, what they are made of, and what they say."""

SPELT_OUT = {
    "SRR": "support retention rate",
    "NDR": "net discovery rate",
    "SDS": "support dynamic score",
    "NSCR": "net support change rate",
}
FORMULAS = {"SRR": "P/(P+S)", "NDR": "E/(P+E)", "SDS": "2PE/(P²+2PE+ES)", "NSCR": "(E-S)/(P+E+S)"}
MEANING = {
    "SRR": "share of what was reached before that is kept",
    "NDR": "share of what is reached after that is new",
    "SDS": "harmonic mean of SRR and NDR",
    "NSCR": "net change over all that either reached",
}
