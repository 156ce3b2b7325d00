"""What planning knows of launches before a plan is made."""
