"""The studio: a web page and an HTTP API on the same predictor, for people who would rather look than type."""
