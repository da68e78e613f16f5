"""What people do with it: each a few functions over the predictor."""
