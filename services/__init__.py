"""Processes that strangers run: settings, wiring, and a loop or routes."""
