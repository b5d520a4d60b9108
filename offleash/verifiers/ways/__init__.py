"""Ways of solving: how a correct sample got to its answer, as one short text, and planted pairs to try it on."""
