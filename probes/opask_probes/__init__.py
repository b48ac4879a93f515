"""Prove what an agent runtime does with the ask tool, against a scripted model, without a network."""
