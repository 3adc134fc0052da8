"""What the kinds of pictures share: their boxes and bitstreams, the decoders, the look that tells a blank one. Which file is which is in `kinds`."""
