"""What each role does in a round, in order."""
