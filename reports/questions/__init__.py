"""What a run is asked beside whether to route: a module per question, with its numbers, sentences and pictures."""
