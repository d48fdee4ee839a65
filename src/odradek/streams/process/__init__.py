"""Runs a plan on topics with the reference executor, exactly once.

runner     reads, delivers, and writes results, changelog and offsets in one transaction
changelog  the changes of stores as records, and stores out of them
"""
