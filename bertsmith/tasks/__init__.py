"""What is learnt: one file per task or objective, the folder is the list."""
