"""What the kinds of sound and film share: containers, frames, and the decode that shows damage and silence. Which file is which is in `kinds`."""
