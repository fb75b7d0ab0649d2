"""Simulations: many clients at once, with the regret, the communication and the points deployed."""
