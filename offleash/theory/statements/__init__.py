"""The statements of appendix C of arXiv:2507.14843 as claims that a search can refute."""
