"""fbed: forward-backward selection with early dropping."""
