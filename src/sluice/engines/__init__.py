"""The outside world: a narrow protocol per neighbour and the engines behind it. What an answer means is decided above."""
