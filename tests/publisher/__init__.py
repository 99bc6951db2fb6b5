"""The publisher's side: what is in a journal, who writes it, and what a consumer of it is sent."""
