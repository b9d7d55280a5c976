"""Manners of a notebook: how words, long work, silent cells and unwritten stubs show themselves."""
