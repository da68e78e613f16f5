"""What the studio and the study share: guards, error responses, listening."""
