"""What is played in the simulated world: each scenario draws its own story from the seed."""
