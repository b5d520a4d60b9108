"""METHODS: every method by name. Adding one is a file and an entry here."""

from collections.abc import Callable, Mapping
from inspect import signature

from offleash.errors import OffleashError, unknown
from offleash.plugins import find_plugin, plugin_names
from offleash.training.method import Method
from offleash.training.methods.baselines import reinforce_pp, remax, rloo
from offleash.training.methods.diversity import diversity, outcome_novelty
from offleash.training.methods.entropy import clip_cov, entropy_advantage, kl_cov, top_entropy
from offleash.training.methods.grpo import dapo, dr_grpo, grpo, gspo, prorl
from offleash.training.methods.off_policy import base_anchor, interleaved_sft, mixed_policy
from offleash.training.methods.pass_at_k import pass_at_k, pkpo
from offleash.training.methods.weighting import focal, nsr, unlikeliness, w_reinforce

METHODS: dict[str, Callable[..., Method]] = {
    "grpo": grpo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "remax": remax,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "prorl": prorl,
    "gspo": gspo,
    "nsr": nsr,
    "w_reinforce": w_reinforce,
    "pass_at_k": pass_at_k,
    "pkpo": pkpo,
    "unlikeliness": unlikeliness,
    "focal": focal,
    "kl_cov": kl_cov,
    "clip_cov": clip_cov,
    "entropy_advantage": entropy_advantage,
    "top_entropy": top_entropy,
    "outcome_novelty": outcome_novelty,
    "diversity": diversity,
    "mixed_policy": mixed_policy,
    "interleaved_sft": interleaved_sft,
    "base_anchor": base_anchor,
}


ENTRY_POINTS = "offleash.methods"


def method_function(name: str) -> Callable[..., Method]:
    """The function that makes a method: one of ours, of an installed package, or the user's own FILE.py:NAME."""
    if name in METHODS:
        return METHODS[name]
    own = find_plugin(ENTRY_POINTS, name, "training method")
    if own is None:
        raise unknown("method", name, [*METHODS, *plugin_names(ENTRY_POINTS)])
    if not callable(own):
        raise OffleashError(
            f"The training method {name} is a {type(own).__name__}. Name a function returning a Method."
        )
    return own


def method(name: str, options: Mapping[str, object] | None = None) -> Method:
    """The method of that name with its options; an unknown name is refused with the closest known one."""
    make, options = method_function(name), options or {}
    known = signature(make).parameters
    for option, value in options.items():
        if option not in known:
            raise unknown(f"{name} option", option, known)
        default = known[option].default
        type_matches = isinstance(value, bool) == isinstance(default, bool) and isinstance(value, int | float)
        if not type_matches or (
            isinstance(default, int) and not isinstance(default, bool) and not isinstance(value, int)
        ):
            kind = {bool: "true or false", int: "a whole number"}.get(type(default), "a number")
            raise OffleashError(f"{option} of the method {name} must be {kind} (default {default}); found {value!r}.")
    built: object = make(**options)
    if not isinstance(built, Method):
        raise OffleashError(f"The training method {name} returned a {type(built).__name__}. Return a Method.")
    return built
