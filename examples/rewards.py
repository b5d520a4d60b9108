"""Verifiers of one's own, one of each interface: offleash verify RUN --verifier examples/rewards.py:NAME."""


def boxed(text: str) -> str | None:
    """What the last box of a text holds."""
    _, mark, rest = text.rpartition("\\boxed{")
    return rest[: rest.rindex("}")].strip() if mark and "}" in rest else None


def same_box(text: str, gold: str) -> bool | None:
    """Ours: any of text, gold, extracted and problem, by name. None is unread: there is no box."""
    answer = boxed(text)
    return None if answer is None else answer == gold.strip()


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, object] | None = None
) -> dict[str, object]:
    """verl's: a number, or a dict whose `score` counts."""
    right = boxed(solution_str) == ground_truth.strip()
    return {"score": float(right), "acc": right}


def accuracy(completions: list[list[dict[str, str]]], answer: list[str], **kwargs: object) -> list[float]:
    """TRL's, for chat models: lists in, one reward per completion out."""
    texts = [completion[0]["content"] for completion in completions]
    return [float(boxed(text) == gold.strip()) for text, gold in zip(texts, answer, strict=True)]
