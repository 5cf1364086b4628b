"""Robust rules that only the simulator plays: each from its paper, over the same integers as the rules on chain."""
