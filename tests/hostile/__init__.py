"""Attacks: hostile agents, clients, servers and programs. Each module or test names the promise that it attacks."""
