"""FBED^K and FBS: who passes, who is best, who stays."""
