"""Ways of solving: which methods were kept, lost and found."""
