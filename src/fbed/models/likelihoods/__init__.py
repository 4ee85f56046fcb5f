"""Log-likelihoods with their derivatives, and Newton's method for many of them at once."""
