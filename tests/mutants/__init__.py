"""Broken on purpose: single lines that each take back a promise, and the test that must notice."""
