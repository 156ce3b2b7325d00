"""What travels between processes and machines: plans, journals, messages, and their one decoder."""
