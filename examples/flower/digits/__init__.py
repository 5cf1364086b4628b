"""Digits, learned with Flower."""
