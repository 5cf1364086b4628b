"""Campaigns: many experiments from one small file, run side by side, and the tables and verdicts they give."""
