"""The floor: time, memory and facts about the machine."""
