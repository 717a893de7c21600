"""Files, processes, memory and measurements of this computer."""
